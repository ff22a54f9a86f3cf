"""SQL expressions over columns: their form, their functions, their evaluation, and what they say about punctuations."""
