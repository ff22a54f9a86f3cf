"""The engine: SQL to a plan, the plan to fragments, fragments to slices and Spark."""
