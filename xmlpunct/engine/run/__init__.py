"""Running a plan: inputs, the local engine, checkpoints, outputs and statistics."""
