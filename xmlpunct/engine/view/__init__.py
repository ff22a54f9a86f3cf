"""What a run looks like while it lives: on the terminal, as a web page, and in numbers for Prometheus.

Reading order: `moment` (what is shown), `view` (the latest moment, and who waits for the next), `drawing` (the plan as
a picture), `metrics` (as numbers) and `server` (all over HTTP). The run's own thread makes each moment, between two
slices, so that it is consistent; whoever shows it only reads.
"""
