"""Kafka: ``kafka://HOST:PORT/TOPIC``, to be read and written. The extra ``kafka`` brings confluent-kafka.

Read, a partition is a sender and its offset the position: the elements of its messages are one stream, or with
``?documents=1`` each message is a document. Written, each tuple and each punctuation is a message. A punctuation goes
to all partitions, since whoever reads one of them has to be told; a tuple goes where its ``?key=column`` says.

Messages are sent in transactions, and carry the run and a sequence number. A run that goes on first looks which of its
messages are there: so each is there once, also where transactions are not honoured.
"""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError, ended_by
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.contract import RUN, SEQUENCE, Connector, Form, Inlet, Outlet, Results, expand
from xmlpunct.connectors.messages import (
    ANSWER_SECONDS,
    CHOICES,
    GLANCE_SECONDS,
    LogReader,
    NumberedWriter,
    choose,
)
from xmlpunct.connectors.retries import Retries
from xmlpunct.connectors.source import Source, bare

AHEAD_KBYTES = 2048
"""How much of each partition librdkafka reads ahead. There may be hundreds, and each has a consumer of its own."""
OTHERS_SECONDS = 120.0
"""How long somebody else's transaction may hold back what comes behind it. A minute is Kafka's usual limit."""
LOG_SECONDS = 60.0
"""How often librdkafka may say the same."""
_BROUGHT = {"bootstrap.servers", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"}
_BROUGHT |= {"transactional.id", "enable.idempotence"}
_READING = {"partitions", "documents", "until", "auto.offset.reset"}
_log = logging.getLogger("xmlpunct.kafka")


class _Telling(logging.Filter):
    """Says what librdkafka logs, once in a while, and without secrets."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = hide(record.getMessage()).rpartition("]: ")[2]
        what, now = text.partition(" (after ")[0], time.monotonic()
        if now - self._said.get(what, -LOG_SECONDS) < LOG_SECONDS:
            return False
        self._said[what] = now
        record.msg, record.args = f"kafka: {text}", ()
        return True


_log.addFilter(_Telling())


@dataclass(frozen=True)
class Topic:
    """A URL of Kafka's, taken apart. ``settings`` are librdkafka's."""

    brokers: str
    name: str
    options: dict[str, str]
    settings: dict[str, str] = field(repr=False)

    @classmethod
    def parse(cls, spec: str, own: set[str]) -> Topic:
        """Take a URL apart, of which ``own`` are the options that are not librdkafka's. Raises `UsageError`."""
        try:
            url = urlsplit(spec)
            brokers, name = url.netloc, unquote(url.path[1:])
            given = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query))
        except ValueError:
            brokers = name = ""
            given = []
        said = dict(given)
        if not (brokers and name) or "@" in brokers or "/" in name or url.fragment or len(said) < len(given):
            raise UsageError(
                f"{_short(spec)} is no address: write kafka://HOST:PORT/TOPIC, and ?sasl.username=...&sasl.password=..."
            )
        if wrong := sorted(_BROUGHT & said.keys()):
            raise UsageError(f"{_short(spec)}: {wrong[0]} is not to be set here: leave it out")
        if wrong := sorted((_READING | {"key"}) & said.keys() - own):
            reads = "OUT" if own != {"key"} else "a source"
            raise UsageError(f"{_short(spec)}: {wrong[0]} is for {reads}: leave it out")
        options = {key: said.pop(key) for key in own & said.keys()}
        return cls(brokers, name, options, said)

    @property
    def partitions(self) -> list[int] | None:
        """The partitions that are named. Raises `UsageError`."""
        text = self.options.get("partitions")
        if text is None:
            return None
        words = text.split(",")
        if not all(word.isdecimal() for word in words) or len({*map(int, words)}) < len(words):
            raise UsageError(f"partitions={text}: write numbers, as in ?partitions=0,1")
        return [int(word) for word in words]


class Kafka(Connector):
    """``kafka://``."""

    def inlet(self, spec: str, sender: str) -> Inlet:
        return Partition(Topic.parse(spec, _READING), int(sender), _short(spec))

    def outlet(self, spec: str, name: str) -> Outlet:
        return TopicWriter(Topic.parse(spec, {"key"}), _short(name))

    def senders(self, spec: str) -> Sequence[str]:
        topic = Topic.parse(spec, _READING)
        if (named := topic.partitions) is not None:
            return [*map(str, named)]
        topic, name = Topic.parse(expand(spec), _READING), _short(spec)
        with _telling(name), _consumer(topic) as consumer:
            return [*map(str, _partitions(consumer, topic, name))]

    def is_endless(self, spec: str) -> bool:
        return Topic.parse(spec, _READING).options.get("until") != "end"

    def place(self, spec: str) -> str:
        return _short(spec).lower()

    def source(self, spec: str, name: str) -> Source:
        topic = Topic.parse(spec, _READING)
        for option, choices in (CHOICES | {"auto.offset.reset": ("earliest", "latest")}).items():
            choose(topic.options, option, choices)
        return super().source(spec, _short(name))


class Partition(LogReader):
    """A partition from its first message on."""

    def __init__(self, topic: Topic, number: int, name: str) -> None:
        latest = topic.options.get("auto.offset.reset") == "latest"
        super().__init__(f"{name}#{number}", topic.options, latest=latest)
        self._topic, self._number = topic, number
        self._consumer: Any = None

    def _connect(self) -> tuple[int, int]:
        kafka, topic = _library(), self._topic
        with _telling(self._name):
            self._consumer = kafka.Consumer(_reading(topic) | _reporting(self._retries), logger=_log)
            if self._number not in _partitions(self._consumer, topic, self._name):
                raise SourceError(self._name, "there is no such partition")
            where = kafka.TopicPartition(topic.name, self._number)
            low, high = self._consumer.get_watermark_offsets(where, timeout=ANSWER_SECONDS, cached=False)
        return low, high

    def _begin(self, offset: int) -> None:
        with _telling(self._name):
            self._at = offset
            self._consumer.assign([_library().TopicPartition(self._topic.name, self._number, offset)])

    def _next(self, seconds: float) -> tuple[int, bytes | None] | None:
        kafka = _library()
        with _telling(self._name):
            message = self._consumer.poll(seconds)
        if message is None:
            return None
        error = message.error()
        if error is None or error.code() == kafka.KafkaError._PARTITION_EOF:
            self._retries.progressed()
        if error is None:
            self._at = message.offset() + 1
            return self._at, message.value()
        if error.code() == kafka.KafkaError._PARTITION_EOF:
            return message.offset(), None
        if error.code() == kafka.KafkaError._AUTO_OFFSET_RESET:
            raise SourceError(self._name, f"offset {self._at} is not there any more: start anew")
        raise SourceError(self._name, hide(error.str()))

    def acknowledge(self, position: Any) -> None:
        """Tell the group, if there is one, so that others see how far it has come."""
        if "group.id" in self._topic.settings:
            where = _library().TopicPartition(self._topic.name, self._number, position["offset"])
            with _telling(self._name):
                self._consumer.commit(offsets=[where], asynchronous=True)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class TopicWriter(NumberedWriter):
    """A topic. A position is the next sequence number, and by partition the offset behind the last message."""

    def __init__(self, topic: Topic, name: str) -> None:
        super().__init__(name)
        self._topic = topic
        self._key = topic.options.get("key")
        self._producer: Any = None
        self._offsets: dict[int, int] = {}

    def open(self, form: Form, position: Any) -> None:
        kafka, topic = _library(), self._topic
        super().open(form, position)
        if self._key is not None and self._key not in form.schema:
            there = ", ".join(form.schema.names)
            raise UsageError(f"{self._name}?key={self._key}: no such column in the result: there are {there}")
        usual = {"partitioner": "murmur2_random", "linger.ms": "0"}
        own = {"bootstrap.servers": topic.brokers, "transactional.id": f"xmlpunct-{form.run}"}
        with _telling(self._name, is_written=True):
            settings = usual | topic.settings | own | _reporting(self._retries)
            self._producer = kafka.Producer(settings, logger=_log)
            # From now on, nothing comes any more of what a run that was killed has sent.
            self._producer.init_transactions(ANSWER_SECONDS)
            self._partitions = _partitions(self._producer, topic, self._name, is_made=True)
            settings = {k: v for k, v in topic.settings.items() if k.startswith(("security", "sasl", "ssl"))}
            whole = (topic.brokers, topic.name, dict[str, str]())
            # Also what a transaction of somebody else holds back: it may be ours that is behind it.
            with _consumer(Topic(*whole, settings | {"isolation.level": "read_uncommitted"})) as consumer:
                self._offsets = ends = {p: self._end(kafka, consumer, p) for p in self._partitions}
            if position is not None:
                self._offsets = ends | {int(p): offset for p, offset in position["offsets"].items()}
                with _consumer(Topic(*whole, settings)) as consumer:
                    self._look(kafka, consumer, ends)

    def _end(self, kafka: ModuleType, consumer: Any, partition: int) -> int:
        where = kafka.TopicPartition(self._topic.name, partition)
        return int(consumer.get_watermark_offsets(where, timeout=ANSWER_SECONDS, cached=False)[1])

    def _look(self, kafka: ModuleType, consumer: Any, ends: dict[int, int]) -> None:
        """Find which messages of this run are behind the position."""
        left = {p: offset for p, offset in self._offsets.items() if offset < ends[p]}
        consumer.assign([kafka.TopicPartition(self._topic.name, p, offset) for p, offset in left.items()])
        until = time.monotonic() + OTHERS_SECONDS
        while left:
            message = consumer.poll(GLANCE_SECONDS)
            if message is None:
                if time.monotonic() > until:
                    raise XmlPunctError(f"cannot write {self._name}: what was written before cannot be read")
                self._retries.waited("a transaction of another writer may hold back what was written before")
                continue
            self._retries.progressed()
            until = time.monotonic() + OTHERS_SECONDS
            error, partition = message.error(), message.partition()
            if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:
                raise kafka.KafkaException(error)
            if error is None:
                headers = dict(message.headers() or ())
                self._find(headers.get(RUN, b"").decode(), headers.get(SEQUENCE, b""), message.value() or b"")
            at_end = message.offset() + (error is None) >= ends[partition]
            if partition in left and at_end:
                del left[partition]

    def write(self, results: Results, *, again: bool = False) -> None:
        messages = []
        for number, (partition, key, value) in enumerate(self._messages(results), self._sequence):
            if not self._is_there(number, value):
                messages.append((number, partition, key, value))
            self._sequence = number + 1
        if not messages:
            return
        with _telling(self._name, is_written=True):
            self._producer.begin_transaction()
            for message in messages:
                self._produce(*message)
            self._producer.commit_transaction(ANSWER_SECONDS)
            self._retries.progressed()

    def _messages(self, results: Results) -> Iterator[tuple[int | None, str | None, bytes]]:
        """What a group says: for each message its partition, if that is not for its key to say, its key and value."""
        number = self._sequence
        for slice_ in results.slices:
            tuples, punctuations = self._form.encoder.messages(slice_)
            if self._key is None:
                for text in tuples:
                    yield self._partitions[number % len(self._partitions)], None, text
                    number += 1
            else:
                keys = self._form.schema.texts(slice_.tuples)[self._key].to_list()
                for key, text in zip(keys, tuples, strict=True):
                    yield None, key or "", text
                    number += 1
            for text in punctuations:
                for partition in self._partitions:
                    yield partition, None, text
                    number += 1

    def _produce(self, number: int, partition: int | None, key: str | None, value: bytes) -> None:
        headers = [(RUN, self._form.run.encode()), (SEQUENCE, str(number).encode())]
        where = {} if partition is None else {"partition": partition}
        while True:
            try:
                self._producer.produce(
                    self._topic.name, value, key, headers=headers, on_delivery=self._delivered, **where
                )
            except BufferError:
                self._producer.poll(GLANCE_SECONDS)
            else:
                break
        self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            partition, offset = message.partition(), message.offset()
            self._offsets[partition] = max(self._offsets.get(partition, 0), offset + 1)

    def commit(self) -> Any:
        return {"sequence": self._sequence, "offsets": {str(p): o for p, o in self._offsets.items()}}

    def close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1)
            self._producer = None


def _library() -> ModuleType:
    try:
        return importlib.import_module("confluent_kafka")
    except ImportError:
        raise UsageError("kafka:// needs confluent-kafka: pip install 'xmlpunct[kafka]'") from None


def _reading(topic: Topic) -> dict[str, Any]:
    """The settings of a consumer. What it has read is kept by us, and so is where it goes on."""
    usual = {"group.id": "xmlpunct", "queued.max.messages.kbytes": AHEAD_KBYTES, "fetch.queue.backoff.ms": 20}
    own = {"bootstrap.servers": topic.brokers, "enable.auto.commit": False, "enable.auto.offset.store": False}
    return usual | topic.settings | own | {"auto.offset.reset": "error", "enable.partition.eof": True}


def _reporting(retries: Retries) -> dict[str, Any]:
    """The setting by which librdkafka, which connects again by itself, reports what fails."""
    return {"error_cb": lambda error: retries.waited(hide(error.str()))}


@contextmanager
def _consumer(topic: Topic) -> Iterator[Any]:
    """A consumer for a moment."""
    client = _library().Consumer(_reading(topic), logger=_log)
    with ended_by(client.close):
        yield client


def _partitions(client: Any, topic: Topic, name: str, is_made: bool = False) -> list[int]:
    """The numbers of a topic's partitions. One that ``is_made`` by asking for it is waited for."""
    codes = _library().KafkaError
    passing = {codes.LEADER_NOT_AVAILABLE} | ({codes.UNKNOWN_TOPIC_OR_PART} if is_made else set())
    until = time.monotonic() + ANSWER_SECONDS
    while True:
        found = client.list_topics(topic.name, timeout=ANSWER_SECONDS).topics[topic.name]
        if found.error is None:
            return sorted(found.partitions)
        if found.error.code() not in passing or time.monotonic() > until:
            raise SourceError(name, found.error.str())
        time.sleep(GLANCE_SECONDS)


@contextmanager
def _telling(name: str, is_written: bool = False) -> Iterator[None]:
    """Make errors of librdkafka ours: of its settings `UsageError`, else `SourceError`, or what a failed output is."""
    kafka = _library()
    try:
        yield
    except (kafka.KafkaException, SourceError) as error:
        found = error.reason if isinstance(error, SourceError) else error.args[0]
        said = found.str() if hasattr(found, "str") else str(found)
        if hasattr(found, "code") and found.code() == kafka.KafkaError._INVALID_ARG:
            raise UsageError(f"{name}: {said}") from None
        if is_written:
            raise XmlPunctError(f"cannot write {name}: {said}") from None
        raise SourceError(name, said) from None


def _short(spec: str) -> str:
    """A URL as it is told: without its settings."""
    return bare(spec).partition("?")[0]
