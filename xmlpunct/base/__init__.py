"""Foundations without dependencies on other folders: errors, secrets, names, paths, framing, lazy imports."""
