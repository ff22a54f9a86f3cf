"""Explains plans, and traces waiting results of a run down to the punctuations that its streams still have to emit."""
