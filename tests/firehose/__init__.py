"""Tests of the XML Firehose, one file for each module."""
