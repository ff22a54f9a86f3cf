"""The stream iterators of the two papers as they define them, line for line.

`plain` has those without punctuations (TKDE 4.1, report 3.1), `tkde` and `report` those with (TKDE 4.2, report 3.2).
The papers' names are kept. A stream is a list of slices, a slice a list of tuples and punctuations, and what a
function gives has as many slices as its input, so that two streams can be compared step by step. Nothing here knows
our operators.
"""
