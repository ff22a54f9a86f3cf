"""What results wait for: what a run knows of itself, the way from a result down to the streams, and the answer."""
