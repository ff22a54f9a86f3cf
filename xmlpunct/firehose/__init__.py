"""The XML Firehose: punctuated XML to slices, and slices to punctuated XML."""

from xmlpunct.firehose.builder import Parsed
from xmlpunct.firehose.library import Readable, parse, slices
from xmlpunct.firehose.parser import Parser, parse_conforming, parse_split
from xmlpunct.firehose.position import Position, Split
from xmlpunct.firehose.reader import FirehoseReader
from xmlpunct.firehose.sources import PartReader, Source, open_source
from xmlpunct.firehose.spec import (
    PUNCT_NAMESPACE,
    ElementName,
    Limits,
    StreamSpec,
    elements_of,
    punctuation_element,
)
from xmlpunct.firehose.splitter import Splitter
from xmlpunct.firehose.writer import CsvWriter, JsonlWriter, Writer, XmlWriter, writer_for
from xmlpunct.names import is_xml_name

__all__ = [
    "PUNCT_NAMESPACE",
    "CsvWriter",
    "ElementName",
    "FirehoseReader",
    "JsonlWriter",
    "Limits",
    "Parsed",
    "Parser",
    "PartReader",
    "Position",
    "Readable",
    "Source",
    "Split",
    "Splitter",
    "StreamSpec",
    "Writer",
    "XmlWriter",
    "elements_of",
    "is_xml_name",
    "open_source",
    "parse",
    "parse_conforming",
    "parse_split",
    "punctuation_element",
    "slices",
    "writer_for",
]
