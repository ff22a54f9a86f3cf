"""The planner: from syntax to plan nodes."""
