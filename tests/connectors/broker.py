"""A Kafka cluster of two brokers: librdkafka's own mock, in its own process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SERVE = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "ignored:1", "test.mock.num.brokers": 2, "log_level": 0})
cluster = producer.list_topics(timeout=30).brokers
print(",".join(f"{b.host}:{b.port}" for b in cluster.values()), flush=True)
sys.stdin.read()
"""


@contextmanager
def brokers() -> Iterator[str]:
    """Run a cluster; yield its addresses."""
    command = [sys.executable, "-c", _SERVE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def send(address: str, topic: str, messages: Sequence[bytes], partition: int = 0) -> None:
    """Send messages to a partition of a topic; a new topic has four partitions."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for message in messages:
        producer.produce(topic, message, partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(address: str, topic: str) -> list[Any]:
    """All messages of a topic, including aborted transactions, by partition and offset."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": address, "group.id": "all", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.partition.eof": True, "isolation.level": "read_uncommitted"})
    try:
        partitions = [*consumer.list_topics(topic, timeout=30).topics[topic].partitions]
        consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
        messages, ended, deadline = [], set(), time.monotonic() + 60
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, "the topic does not end"
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                messages.append(message)
            elif message is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
    finally:
        consumer.close()
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def count(address: str, topic: str) -> int:
    """The number of messages in a topic; 0 without the topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "count"})
    try:
        topic_metadata = consumer.list_topics(timeout=30).topics.get(topic)
        partitions = [TopicPartition(topic, p) for p in topic_metadata.partitions] if topic_metadata else []
        return sum(consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in partitions)
    finally:
        consumer.close()
