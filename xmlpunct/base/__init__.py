"""What every part of xmlpunct stands on: errors, secrets, names, paths, framing, lazy imports."""
