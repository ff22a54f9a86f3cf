"""The stream iterators of the two papers, transcribed line for line with the papers' names.

`plain`: iterators without punctuations (TKDE 4.1, report 3.1); `tkde` and `report`: with punctuations (TKDE 4.2,
report 3.2). A stream is a list of slices, and a slice is a list of tuples and punctuations. An output has as many
slices as the input, so two streams can be compared step by step. This package does not use our operators.
"""
