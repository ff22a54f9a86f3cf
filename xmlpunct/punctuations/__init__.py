"""Punctuations: patterns, sets of punctuations, what a stream has promised, and where several inputs agree."""
