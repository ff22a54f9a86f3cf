"""The XML Firehose: punctuated XML to slices, and slices to punctuated XML.

The stages from a source to a slice:

    connectors         one per URL scheme; every source becomes UTF-8 bytes
       |
    slice_reader       its cutter goes from a position to the next split, and from part to part   position
       |
    splitter           splits the bytes where no tuple or punctuation is open
       |                   a walk of the native reader, or a Python scan if that cannot proceed
    parser
       |-- native      one walk fills rows by an automaton over element paths
       |                   native/walker, native/path_automaton, native/automaton_tables,
       |                   native/walk.c, scan.c, tags.c, rows.c, around.c
       |   or, for input that the native reader does not support, and for malformed input
       |-- libxml      libxml2 calls `Target` for each tag
       |                   libxml/parser_target, malformed, doctype, dictionary; shape
       |
    cells              texts as offsets into the split, and to values        native/values.c
       |               reading, bundling                                     texts to punctuations
       |
    builder            a slice, with its rejects and errors
"""

from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.parser import Parser, parse_conforming, parse_split
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.slice_reader import SliceReader
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
    "JsonlWriter",
    "Limits",
    "Parsed",
    "Parser",
    "Position",
    "SliceReader",
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
