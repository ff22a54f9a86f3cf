"""A moment of a run in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from xmlpunct.engine.view.moment import InputMoment, Moment, OperatorBox, OutputMoment

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_INPUT_COUNTS = {
    "tuples": "Tuples read.",
    "punctuations": "Punctuations read.",
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
    ['# HELP xmlpunct_operator_tuples_out_total Tuples that it gave.',
     '# TYPE xmlpunct_operator_tuples_out_total counter',
     'xmlpunct_operator_tuples_out_total{id="1",operator="scan"} 3.0']
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Moment(moment))
    return generate_latest(registry)


class _Moment(Collector):
    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        moment = self._moment
        yield from _inputs(moment.inputs)
        yield from _boxes(moment.boxes)
        yield from _outputs(moment.outputs)
        for name, text in _OUTPUT_COUNTS.items():
            yield CounterMetricFamily(f"xmlpunct_{name}", text, value=getattr(moment, name))
        yield CounterMetricFamily("xmlpunct_output_bytes", "Bytes written.", value=moment.bytes_out)
        yield GaugeMetricFamily("xmlpunct_run_seconds", "Seconds since the run began.", value=moment.seconds)
        if moment.first_result_seconds is not None:
            text = "Seconds from the start of the process to the first result."
            yield GaugeMetricFamily("xmlpunct_first_result_seconds", text, value=moment.first_result_seconds)
        up = GaugeMetricFamily(
            "xmlpunct_up", "1 while the run continues; 0 once it has ended.", labels=["engine"]
        )
        up.add_metric([moment.engine], moment.state in ("starting", "running"))
        yield up
        silent = GaugeMetricFamily(
            "xmlpunct_input_silent_seconds",
            "Seconds for which an input that results wait for has been silent.",
            labels=["input"],
        )
        held_up = GaugeMetricFamily(
            "xmlpunct_input_holds_up", "Retained tuples that wait for a silent input.", labels=["input"]
        )
        for idle in moment.idle:
            silent.add_metric([idle.input], idle.seconds)
            held_up.add_metric([idle.input], idle.holds_up)
        yield from (silent, held_up)


def _outputs(outputs: tuple[OutputMoment, ...]) -> Iterator[Metric]:
    """The metrics of each result, if the query has several."""
    for name, text in _SINK_COUNTS.items() if len(outputs) > 1 else ():
        counter = CounterMetricFamily(f"xmlpunct_sink_{name}", text, labels=["sink"])
        for output in outputs:
            counter.add_metric([output.name], getattr(output, name))
        yield counter


def _inputs(inputs: tuple[InputMoment, ...]) -> Iterator[Metric]:
    for name, text in _INPUT_COUNTS.items():
        counter = CounterMetricFamily(f"xmlpunct_input_{name}", text, labels=["input"])
        for i in inputs:
            counter.add_metric([i.name], getattr(i, name))
        yield counter
    lag = GaugeMetricFamily(
        "xmlpunct_input_lag_bytes",
        "Bytes that are available and not read yet, if known.",
        labels=["input"],
    )
    age = GaugeMetricFamily(
        "xmlpunct_input_punctuation_age_seconds",
        "Seconds since the last punctuation was read.",
        labels=["input"],
    )
    ended = GaugeMetricFamily("xmlpunct_input_ended", "1 if the input was read to its end.", labels=["input"])
    for i in inputs:
        if i.behind is not None:
            lag.add_metric([i.name], i.behind)
        if i.punctuation_age is not None:
            age.add_metric([i.name], i.punctuation_age)
        ended.add_metric([i.name], i.ended)
    yield from (lag, age, ended)


def _boxes(boxes: tuple[OperatorBox, ...]) -> Iterator[Metric]:
    label_names = ["id", "operator"]
    for name, text in _BOX_COUNTS.items():
        counter = CounterMetricFamily(f"xmlpunct_operator_{name}", text, labels=label_names)
        for box in boxes:
            counter.add_metric([str(box.id), box.name], getattr(box, name))
        yield counter
    for name, text in _BOX_GAUGES.items():
        gauge = GaugeMetricFamily(f"xmlpunct_operator_{name}", text, labels=label_names)
        for box in boxes:
            gauge.add_metric([str(box.id), box.name], getattr(box, name))
        yield gauge
    waits = GaugeMetricFamily(
        "xmlpunct_operator_waits",
        "Retained tuples of the operator that wait for one of its inputs.",
        labels=[*label_names, "port"],
    )
    for box in boxes:
        for port, count in enumerate(box.waits):
            waits.add_metric([str(box.id), box.name, str(port)], count)
    yield waits
