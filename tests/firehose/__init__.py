"""Tests of the XML Firehose, a file each for its modules."""
