"""Kafka: ``kafka://HOST:PORT/TOPIC``, for input and output. The extra ``kafka`` installs confluent-kafka.

Input: a partition is a sender, and its offset the position. The elements of its messages are one stream, or with
``?documents=1`` each message is a document. Output: each tuple and each punctuation is a message. A punctuation is
sent to all partitions, because the readers of each need it; ``?key=column`` selects the partition of a tuple.

Messages are sent in transactions, with the run and a sequence number. A continued run first finds its messages in the
topic, so each message is stored once even for readers that ignore transactions.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from xmlpunct.base.errors import SourceError, UsageError, XmlPunctError, ended_by
from xmlpunct.base.lazy_imports import import_extra
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.contract import expand
from xmlpunct.connectors.inlet import Inlet
from xmlpunct.connectors.messages import (
    ANSWER_SECONDS,
    CHOICES,
    GLANCE_SECONDS,
    Broker,
    LogReader,
    NumberedWriter,
)
from xmlpunct.connectors.outlet import RUN, SEQUENCE, Form, Outlet, Results
from xmlpunct.connectors.retries import Retries
from xmlpunct.connectors.source import Source
from xmlpunct.connectors.url import Address, has_topic, short

AHEAD_KBYTES = 2048
"""Kilobytes of each partition that librdkafka prefetches. There may be hundreds of partitions with a consumer each."""
OTHERS_SECONDS = 120.0
"""How long another writer's open transaction may block later messages. Kafka's default limit is one minute."""
LOG_SECONDS = 60.0
"""Minimum time between equal log messages of librdkafka."""
_BROUGHT = {"bootstrap.servers", "enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"}
_BROUGHT |= {"transactional.id", "enable.idempotence"}
_FORM = "kafka://HOST:PORT/TOPIC, and ?sasl.username=...&sasl.password=..."
_CHOICES = CHOICES | {"auto.offset.reset": ("earliest", "latest")}
_READING = {"partitions", *_CHOICES}
_PARTITION = re.compile("0|[1-9][0-9]*")
_log = logging.getLogger("xmlpunct.kafka")


class _LogFilter(logging.Filter):
    """Limits the rate of librdkafka's log messages, and hides secrets in them."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = hide(record.getMessage()).rpartition("]: ")[2]
        message, seconds = text.partition(" (after ")[0], time.monotonic()
        if seconds - self._logged_at.get(message, -LOG_SECONDS) < LOG_SECONDS:
            return False
        self._logged_at[message] = seconds
        record.msg, record.args = f"kafka: {text}", ()
        return True


_log.addFilter(_LogFilter())


class Kafka(Broker):
    """``kafka://``."""

    def input_address(self, spec: str) -> Address:
        return _address(spec, _READING)

    def inlet(self, spec: str, sender: str) -> Inlet:
        return Partition(self.input_address(spec), int(sender))

    def outlet(self, spec: str, name: str) -> Outlet:
        return TopicWriter(_address(spec, {"key"}), short(name))

    def senders(self, spec: str) -> Sequence[str]:
        address, expected = self.input_address(spec), "numbers, as in ?partitions=0,1"
        if numbers := address.names("partitions", expected, _PARTITION.fullmatch):
            return numbers
        address, name = self.input_address(expand(spec)), address.name
        with _converted_errors(name), _consumer(address.host, _settings(address)) as consumer:
            return [*map(str, _partitions(consumer, address.path, name))]

    def source(self, spec: str, name: str) -> Source:
        self.input_address(spec).check_choices(_CHOICES)  # not before, because a value may be ${NAME}
        return super().source(spec, name)


def _address(spec: str, own_options: set[str]) -> Address:
    """A URL with options of this module, and settings of librdkafka. Raises `UsageError`."""
    address = Address.parse(spec, _FORM, None, _has_kafka_topic, has_several_hosts=True)
    if wrong := sorted(_BROUGHT & address.options.keys()):
        raise UsageError(f"{address.name}: {wrong[0]} cannot be set here: leave it out")
    if wrong := sorted((_READING | {"key"}) & address.options.keys() - own_options):
        reads = "OUT" if own_options != {"key"} else "a source"
        raise UsageError(f"{address.name}: {wrong[0]} is for {reads}: leave it out")
    return address


def _has_kafka_topic(address: Address) -> bool:
    return has_topic(address) and address.user is None and not set(address.path) & set("/#")


def _settings(address: Address) -> dict[str, str]:
    """The settings of librdkafka in a URL."""
    return {name: value for name, value in address.options.items() if name not in _READING | {"key"}}


class Partition(LogReader):
    """Reads a partition from its first message."""

    def __init__(self, address: Address, number: int) -> None:
        latest = address.options.get("auto.offset.reset") == "latest"
        super().__init__(f"{address.name}#{number}", address.options, latest=latest)
        self._address, self._number = address, number
        self._consumer: Any = None

    def _connect(self) -> tuple[int, int]:
        address = self._address
        with _converted_errors(self._name):
            settings = _consumer_settings(address.host, _settings(address)) | _error_callback(self._retries)
            self._consumer = _library().Consumer(settings, logger=_log)
            if self._number not in _partitions(self._consumer, address.path, self._name):
                raise SourceError(self._name, "the partition does not exist")
            return _extent(self._consumer, address.path, self._number)

    def _begin(self, offset: int) -> None:
        with _converted_errors(self._name):
            self._at = offset
            self._consumer.assign([_library().TopicPartition(self._address.path, self._number, offset)])

    def _next(self, seconds: float) -> tuple[int, bytes | None] | None:
        kafka = _library()
        with _converted_errors(self._name):
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
            raise SourceError(
                self._name, f"offset {self._at} no longer exists: start again from the beginning"
            )
        raise SourceError(self._name, hide(error.str()))

    def acknowledge(self, position: Any) -> None:
        """Commit the offset to the consumer group, if there is one, for monitoring tools."""
        if "group.id" in self._address.options:
            where = _library().TopicPartition(self._address.path, self._number, position["offset"])
            with _converted_errors(self._name):
                self._consumer.commit(offsets=[where], asynchronous=True)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class TopicWriter(NumberedWriter):
    """Writes to a topic. A position holds the next sequence number, and by partition the offset after its messages."""

    def __init__(self, address: Address, name: str) -> None:
        super().__init__(name)
        self._address, self._key = address, address.options.get("key")
        self._producer: Any = None
        self._offsets: dict[int, int] = {}

    def open(self, form: Form, position: Any) -> None:
        kafka, address, all_settings = _library(), self._address, _settings(self._address)
        super().open(form, position)
        if self._key is not None and self._key not in form.schema:
            columns = ", ".join(form.schema.names)
            raise UsageError(
                f"{self._name}?key={self._key}: the result has no such column: there are {columns}"
            )
        defaults = {"partitioner": "murmur2_random", "linger.ms": "0"}
        fixed = {"bootstrap.servers": address.host, "transactional.id": f"xmlpunct-{form.run}"}
        with _converted_errors(self._name, is_written=True):
            settings = defaults | all_settings | fixed | _error_callback(self._retries)
            self._producer = kafka.Producer(settings, logger=_log)
            # From now on, no message of a killed run with this id can arrive.
            self._producer.init_transactions(ANSWER_SECONDS)
            self._partitions = _partitions(self._producer, address.path, self._name, is_made=True)
            settings = {k: v for k, v in all_settings.items() if k.startswith(("security", "sasl", "ssl"))}
            # Including messages blocked by another writer's transaction: messages of this run may follow it.
            with _consumer(address.host, settings | {"isolation.level": "read_uncommitted"}) as consumer:
                self._offsets = ends = {p: _extent(consumer, address.path, p)[1] for p in self._partitions}
            if position is not None:
                self._offsets = ends | {int(p): offset for p, offset in position["offsets"].items()}
                with _consumer(address.host, settings) as consumer:
                    self._find_sent(kafka, consumer, ends)

    def _find_sent(self, kafka: ModuleType, consumer: Any, ends: dict[int, int]) -> None:
        """Find the messages of this run after the position."""
        left = {p: offset for p, offset in self._offsets.items() if offset < ends[p]}
        consumer.assign([kafka.TopicPartition(self._address.path, p, offset) for p, offset in left.items()])
        until = time.monotonic() + OTHERS_SECONDS
        while left:
            message = consumer.poll(GLANCE_SECONDS)
            if message is None:
                if time.monotonic() > until:
                    raise XmlPunctError(f"cannot write {self._name}: the earlier output cannot be read")
                self._retries.waited("a transaction of another writer may block the earlier output")
                continue
            self._retries.progressed()
            until = time.monotonic() + OTHERS_SECONDS
            error, partition = message.error(), message.partition()
            if error is not None and error.code() != kafka.KafkaError._PARTITION_EOF:
                raise kafka.KafkaException(error)
            if error is None:
                headers = dict(message.headers() or ())
                self._note(headers.get(RUN, b"").decode(), headers.get(SEQUENCE, b""), message.value() or b"")
            at_end = message.offset() + (error is None) >= ends[partition]
            if partition in left and at_end:
                del left[partition]

    def write(self, results: Results, *, again: bool = False) -> None:
        messages = []
        for number, (partition, key, value) in enumerate(self._messages(results), self._sequence):
            if not self._is_sent(number, value):
                messages.append((number, partition, key, value))
            self._sequence = number + 1
        if not messages:
            return
        with _converted_errors(self._name, is_written=True):
            self._producer.begin_transaction()
            for message in messages:
                self._produce(*message)
            self._producer.commit_transaction(ANSWER_SECONDS)
            self._retries.progressed()

    def _messages(self, results: Results) -> Iterator[tuple[int | None, str | None, bytes]]:
        """The messages of a group: (partition, key, value); the partition is None if the key selects it."""
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
                    self._address.path, value, key, headers=headers, on_delivery=self._note_delivery, **where
                )
            except BufferError:
                self._producer.poll(GLANCE_SECONDS)
            else:
                break
        self._producer.poll(0)

    def _note_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            partition, offset = message.partition(), message.offset()
            self._offsets[partition] = max(self._offsets.get(partition, 0), offset + 1)

    def commit(self) -> dict[str, Any]:
        return super().commit() | {"offsets": {str(p): o for p, o in self._offsets.items()}}

    def close(self) -> None:
        if self._producer is not None:
            self._producer.purge()
            self._producer.flush(1)
            self._producer = None


def _library() -> ModuleType:
    return import_extra("confluent_kafka", "kafka:// needs confluent-kafka", "kafka")


def _consumer_settings(brokers: str, settings: dict[str, str]) -> dict[str, Any]:
    """The settings of a consumer. Offsets are stored in xmlpunct's checkpoint, not by Kafka."""
    usual = {"group.id": "xmlpunct", "queued.max.messages.kbytes": AHEAD_KBYTES, "fetch.queue.backoff.ms": 20}
    fixed = {
        "bootstrap.servers": brokers,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
    }
    return usual | settings | fixed | {"auto.offset.reset": "error", "enable.partition.eof": True}


def _error_callback(retries: Retries) -> dict[str, Any]:
    """The setting with which librdkafka, which reconnects by itself, reports errors."""
    return {"error_cb": lambda error: retries.waited(hide(error.str()))}


@contextmanager
def _consumer(brokers: str, settings: dict[str, str]) -> Iterator[Any]:
    """A consumer that is closed at the end of the block."""
    client = _library().Consumer(_consumer_settings(brokers, settings), logger=_log)
    with ended_by(client.close):
        yield client


def _extent(consumer: Any, topic: str, partition: int) -> tuple[int, int]:
    """The offset of a partition's first message, and the offset after its last."""
    topic_partition = _library().TopicPartition(topic, partition)
    low, high = consumer.get_watermark_offsets(topic_partition, timeout=ANSWER_SECONDS, cached=False)
    return low, high


def _partitions(client: Any, topic: str, name: str, is_made: bool = False) -> list[int]:
    """The numbers of a topic's partitions. ``is_made``: wait for a topic that the request may create."""
    codes = _library().KafkaError
    passing = {codes.LEADER_NOT_AVAILABLE} | ({codes.UNKNOWN_TOPIC_OR_PART} if is_made else set())
    until = time.monotonic() + ANSWER_SECONDS
    while True:
        metadata = client.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        if metadata.error is None:
            return sorted(metadata.partitions)
        if metadata.error.code() not in passing or time.monotonic() > until:
            raise SourceError(name, metadata.error.str())
        time.sleep(GLANCE_SECONDS)


@contextmanager
def _converted_errors(name: str, is_written: bool = False) -> Iterator[None]:
    """Convert librdkafka's errors: `UsageError` for settings, `XmlPunctError` for outputs, else `SourceError`."""
    kafka = _library()
    try:
        yield
    except (kafka.KafkaException, SourceError) as error:
        cause = error.reason if isinstance(error, SourceError) else error.args[0]
        text = cause.str() if hasattr(cause, "str") else str(cause)
        if hasattr(cause, "code") and cause.code() == kafka.KafkaError._INVALID_ARG:
            raise UsageError(f"{name}: {text}") from None
        if is_written:
            raise XmlPunctError(f"cannot write {name}: {text}") from None
        raise SourceError(name, text) from None
