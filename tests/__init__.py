"""Tests. `tests.oracle` is the executable specification they hold the operators against."""
