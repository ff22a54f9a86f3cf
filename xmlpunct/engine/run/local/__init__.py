"""The local engine: the complete plan runs in this process, slice by slice."""
