"""A moment of a run in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from xmlpunct.engine.view.moment import InputMoment, Moment, OperatorBox

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_INPUT_COUNTS = {
    "tuples": "Tuples read.",
    "punctuations": "Punctuations read.",
    "punctuations_made": "Punctuations that the run made for the input (PUNCTUATE ORDER BY, PRIMARY KEY).",
    "rejected": "Tuples rejected.",
    "bytes": "Bytes read.",
}
_BOX_COUNTS = {
    "tuples_in": "Tuples that the operator received.",
    "tuples_out": "Tuples that the operator emitted.",
    "punctuations_in": "Punctuations that the operator received.",
    "punctuations_out": "Punctuations that the operator emitted.",
}
_BOX_GAUGES = {
    "state_rows": "Tuples or groups that the operator retains.",
    "held_punctuations": "Punctuations that the operator retains.",
}
_SINK_COUNTS = {
    "tuples": "Results written to the output.",
    "punctuations": "Punctuations written to the output.",
    "bytes": "Bytes written to the output.",
    "late": "Results dropped at the output because they match an earlier punctuation.",
}
_OUTPUT_COUNTS = {
    "slices": "Slices processed.",
    "tuples_out": "Results written.",
    "punctuations_out": "Punctuations written.",
    "late": "Results dropped because they match an earlier punctuation.",
    "rejected": "Tuples rejected, by inputs and operators.",
    "forgotten": "Punctuations that were forgotten to save memory.",
}


def metrics(moment: Moment) -> bytes:
    """All metrics of a moment, each with HELP and TYPE. Metric names begin with ``xmlpunct_``.

    >>> moment = Moment("running", "local", 2.0, (OperatorBox(1, "scan", "s: x", stream="s", tuples_out=3),))
    >>> lines = metrics(moment).decode().splitlines()
    >>> [line for line in lines if "operator_tuples_out" in line]  # doctest: +NORMALIZE_WHITESPACE
    ['# HELP xmlpunct_operator_tuples_out_total Tuples that the operator emitted.',
     '# TYPE xmlpunct_operator_tuples_out_total counter',
     'xmlpunct_operator_tuples_out_total{id="1",operator="scan"} 3.0']
    """
    return generate_latest(_Moment(moment))


class _Moment(Collector):
    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def collect(self) -> Iterator[Metric]:
        moment = self._moment
        yield from _inputs(moment.inputs)
        yield from _boxes(moment.boxes)
        if len(moment.outputs) > 1:
            yield from _counters("sink_", _SINK_COUNTS, ["sink"], [([o.name], o) for o in moment.outputs])
        yield from _counters("", _OUTPUT_COUNTS, [], [([], moment)])
        yield CounterMetricFamily("xmlpunct_output_bytes", "Bytes written.", value=moment.bytes_out)
        yield GaugeMetricFamily("xmlpunct_run_seconds", "Seconds since the run began.", value=moment.seconds)
        if moment.first_result_seconds is not None:
            text = "Seconds from the start of the process to the first result."
            yield GaugeMetricFamily("xmlpunct_first_result_seconds", text, value=moment.first_result_seconds)
        is_up = moment.state in ("starting", "running")
        text = "1 while the run continues; 0 once it has ended."
        yield _gauge("up", text, ["engine"], [([moment.engine], is_up)])
        text = "Seconds for which an input that results wait for has been silent."
        yield _gauge("input_silent_seconds", text, ["input"], [([i.input], i.seconds) for i in moment.idle])
        text = "Retained tuples that wait for a silent input."
        yield _gauge("input_holds_up", text, ["input"], [([i.input], i.holds_up) for i in moment.idle])


def _inputs(inputs: tuple[InputMoment, ...]) -> Iterator[Metric]:
    yield from _counters("input_", _INPUT_COUNTS, ["input"], [([i.name], i) for i in inputs])
    text = "Bytes that are available and not read yet, if known."
    yield _gauge("input_lag_bytes", text, ["input"], [([i.name], i.behind) for i in inputs])
    text = "Seconds since the last punctuation was read."
    ages = [([i.name], i.punctuation_age) for i in inputs]
    yield _gauge("input_punctuation_age_seconds", text, ["input"], ages)
    text = "1 if the input was read to its end."
    yield _gauge("input_ended", text, ["input"], [([i.name], i.ended) for i in inputs])


def _boxes(boxes: tuple[OperatorBox, ...]) -> Iterator[Metric]:
    labels = ["id", "operator"]
    labelled = [([str(box.id), box.name], box) for box in boxes]
    yield from _counters("operator_", _BOX_COUNTS, labels, labelled)
    for name, text in _BOX_GAUGES.items():
        yield _gauge(f"operator_{name}", text, labels, [(names, getattr(b, name)) for names, b in labelled])
    waits = [([*names, str(port)], count) for names, box in labelled for port, count in enumerate(box.waits)]
    text = "Retained tuples of the operator that wait for one of its inputs."
    yield _gauge("operator_waits", text, [*labels, "port"], waits)


def _counters(
    prefix: str, texts: Mapping[str, str], labels: Sequence[str], labelled: Sequence[tuple[list[str], object]]
) -> Iterator[Metric]:
    """A counter for each attribute in ``texts`` of objects with values of the ``labels``."""
    for name, text in texts.items():
        counter = CounterMetricFamily(f"xmlpunct_{prefix}{name}", text, labels=labels)
        for label_values, counted in labelled:
            counter.add_metric(label_values, getattr(counted, name))
        yield counter


def _gauge(
    name: str, text: str, labels: Sequence[str], samples: Sequence[tuple[list[str], float | None]]
) -> Metric:
    """A gauge with a sample for each value that is not None."""
    gauge = GaugeMetricFamily(f"xmlpunct_{name}", text, labels=labels)
    for label_values, value in samples:
        if value is not None:
            gauge.add_metric(label_values, value)
    return gauge
