"""Reading whole chunks of XML at once, where numpy can prove what they hold.

A *region* is what stands between the ends of two tuples or punctuations: white space and one element. Regions
that differ in their values alone share a `Template`, learnt from one of them by the conforming parser. A
region is proven when everything in it but its values is the template's, byte by byte, and nothing in the
values can be markup. All else is *odd*, and the conforming parser reads it.
"""

from xmlpunct.firehose.scan.scanner import Proven, ProvenPunctuations, Scanned, Scanner
from xmlpunct.firehose.scan.template import Tree

__all__ = ["Proven", "ProvenPunctuations", "Scanned", "Scanner", "Tree"]
