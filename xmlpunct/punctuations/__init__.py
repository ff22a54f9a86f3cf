"""Punctuations, batches and indexes of punctuations, and the alignment of several inputs."""
