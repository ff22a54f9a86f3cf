"""xmlpunct: continuous queries over punctuated XML streams.

`parse`, `slices` and `Feed` read XML into tuples and punctuations, `scan_xml` into a polars LazyFrame; `query` runs SQL
over streams in this process; `match`, `combine` and `covers` reason about punctuations.
"""

from typing import TYPE_CHECKING

from xmlpunct.base import forks  # noqa: F401  forks registers itself in every process
from xmlpunct.base.lazy_imports import found_later

if TYPE_CHECKING:
    from xmlpunct.base.errors import (
        PatternError,
        Reject,
        SchemaError,
        SourceError,
        SqlError,
        StrictError,
        TransientError,
        UsageError,
        XmlPunctError,
    )
    from xmlpunct.punctuations.punctuation import Punctuation, combine, covers, match
    from xmlpunct.punctuations.punctuation_set import PunctuationSet
    from xmlpunct.python.parse_api import parse, slices
    from xmlpunct.python.polars_scan import scan_xml
    from xmlpunct.python.push_feed import Feed
    from xmlpunct.python.query_api import query
    from xmlpunct.python.query_results import QueryResults
    from xmlpunct.schema import Schema
    from xmlpunct.schema.attribute import Attribute
    from xmlpunct.slice import Slice
else:
    __getattr__, __dir__ = found_later(
        __name__,
        {
            "base.errors": "PatternError Reject SchemaError SourceError SqlError StrictError TransientError UsageError "
            "XmlPunctError",
            "python.polars_scan": "scan_xml",
            "python.parse_api": "parse slices",
            "python.push_feed": "Feed",
            "python.query_api": "query",
            "punctuations.punctuation": "Punctuation combine covers match",
            "punctuations.punctuation_set": "PunctuationSet",
            "python.query_results": "QueryResults",
            "schema": "Schema",
            "schema.attribute": "Attribute",
            "slice": "Slice",
        },
    )

del TYPE_CHECKING, found_later

__version__ = "0.1.0"

__all__ = [
    "Attribute",
    "Feed",
    "PatternError",
    "Punctuation",
    "PunctuationSet",
    "QueryResults",
    "Reject",
    "Schema",
    "SchemaError",
    "Slice",
    "SourceError",
    "SqlError",
    "StrictError",
    "TransientError",
    "UsageError",
    "XmlPunctError",
    "combine",
    "covers",
    "match",
    "parse",
    "query",
    "scan_xml",
    "slices",
]
