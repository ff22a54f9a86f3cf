"""Tests of the operators, a file each."""
