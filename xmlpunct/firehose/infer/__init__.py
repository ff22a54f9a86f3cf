"""Columns for streams without a declaration: from a sample of the document, or from an XML Schema."""
