"""The XML Firehose: punctuated XML to slices, and slices to punctuated XML.

The way of a byte, from a source to a slice:

    sources        a connector for each scheme; all of it becomes UTF-8             connectors, source
       |
    splitter       cuts where no tuple and no punctuation is open            position, markup
       |                by a walk of the native reader; what that does not take, by plain Python
    parser
       |-- walker  the native reader: one walk fills rows by a tree of paths
       |                walk.c (scan.h, tags.h, rows.h, around.h), tree
       |   or, for what it does not take, and for all that is wrong
       |-- target  libxml2 calls it for each tag                             shape, faults, prologue, dictionary
       |
    cells          texts as places in the split                              values.c
       |
    columns        texts to values              reading, bundling            patterns to punctuations
       |
    delivery       a slice, with its rejects and errors
"""

from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.parser import Parser, parse_conforming, parse_split
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.reader import FirehoseReader
from xmlpunct.firehose.spec import (
    ElementName,
    Limits,
    StreamSpec,
    elements_of,
    punctuation_element,
)
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.firehose.writer import CsvWriter, JsonlWriter, Writer, XmlWriter, writer_for

__all__ = [
    "CsvWriter",
    "ElementName",
    "FirehoseReader",
    "JsonlWriter",
    "Limits",
    "Parsed",
    "Parser",
    "Position",
    "Split",
    "Splitter",
    "StreamSpec",
    "Writer",
    "XmlWriter",
    "elements_of",
    "parse_conforming",
    "parse_split",
    "punctuation_element",
    "writer_for",
]
