"""Relations as streams of changes: a tuple, the instant of a change, and how many copies come or go."""
