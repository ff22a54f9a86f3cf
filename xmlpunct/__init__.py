"""xmlpunct: continuous queries over punctuated XML streams.

`parse` and `slices` read XML into tuples and punctuations; `query` runs SQL over streams in this process;
`match`, `combine` and `covers` reason about punctuations.
"""

from xmlpunct.errors import (
    PatternError,
    Reject,
    SchemaError,
    SourceError,
    SqlError,
    StrictError,
    UsageError,
    XmlPunctError,
)
from xmlpunct.firehose.library import parse, slices
from xmlpunct.library import query
from xmlpunct.punctset import PunctuationSet
from xmlpunct.punctuation import Punctuation, combine, covers, match
from xmlpunct.schema import Attribute, Schema
from xmlpunct.slice import Slice

__version__ = "0.1.0"

__all__ = [
    "Attribute",
    "PatternError",
    "Punctuation",
    "PunctuationSet",
    "Reject",
    "Schema",
    "SchemaError",
    "Slice",
    "SourceError",
    "SqlError",
    "StrictError",
    "UsageError",
    "XmlPunctError",
    "combine",
    "covers",
    "match",
    "parse",
    "query",
    "slices",
]
