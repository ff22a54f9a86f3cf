"""Tests of the operators, one file each."""
