"""libxml2 through lxml: reads splits that the native reader refuses, and decides whether XML is malformed."""
