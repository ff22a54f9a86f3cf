"""What makes a run durable, whatever engine it is on: inputs that can be read again, and records of how far."""
