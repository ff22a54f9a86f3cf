"""The local engine: the whole plan in this process, a slice at a time."""
