"""``python -m xmlpunct``."""

from xmlpunct.cli import main

main()
