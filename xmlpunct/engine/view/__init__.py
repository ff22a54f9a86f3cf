"""The live view of a run: on the terminal, as a web page, and as Prometheus metrics.

Reading order: `moment` (the displayed snapshot of a run), `view` (the latest moment, shared between threads), `drawing`
(the plan as an SVG picture), `metrics` (the Prometheus text format) and `server` (all of these over HTTP). The run's
own thread creates each moment between two slices, so a moment is consistent. Displays only read moments.
"""
