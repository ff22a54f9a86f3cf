"""Connections to NATS JetStream, and readers of its streams."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from xmlpunct.base.errors import undoing
from xmlpunct.base.lazy_imports import import_extra
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.messages import ANSWER_SECONDS
from xmlpunct.connectors.tls import client_context
from xmlpunct.connectors.url import Address

AT_ONCE = 256
"""Number of messages that are requested, or sent, before the server has to answer."""
KEPT_SECONDS = 300.0
"""How long the server keeps the consumer of an inactive reader."""
_NEXT = "$JS.API.CONSUMER.MSG.NEXT"
_NOTHING = ("404", "408")
_PASSING = (None, 0, 10008)
"""Error codes of temporary unavailability: nothing answers, or a cluster elects a leader."""
_DELETE = "$JS.API.CONSUMER.DELETE"
_FAREWELL_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
"""The time limit of a request for messages."""
_PART_SECONDS = 1.0
"""Pause after a partial answer until a new request is sent: some servers drop the end of an answer."""
_LATE_SECONDS = 5.0
"""A request without an answer this long after its time limit is lost."""
_LINGER_SECONDS = 0.01
"""How long to wait for another message after one has arrived."""

T = TypeVar("T")


class Refused(Exception):
    """The server refuses the operation permanently."""


class Connection:
    """A connection with an event loop in a thread of its own.

    Its methods raise OSError if the connection is lost, and `Refused`.
    """

    def __init__(self, address: Address) -> None:
        self._nats, self._address = import_extra("nats", "nats:// needs nats-py", "nats"), address
        self._loop = asyncio.new_event_loop()
        self._lost = asyncio.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name=address.name, daemon=True)
        self._thread.start()
        with undoing(self.close):
            self.do(self._connect())
        self.streams = self.client.jetstream(timeout=ANSWER_SECONDS)

    async def _connect(self) -> None:
        address, options = self._address, self._address.options
        is_safe = "ca" in options or options.get("tls") == "1"

        async def lost() -> None:
            self._lost.set()

        async def store_error(error: Exception) -> None:
            self._error = error

        def secret(text: str | None) -> Any:
            """A callback for a part of the credentials, which refuses if TLS is required and the server lacks it."""

            def tell() -> str | None:
                self._check(is_safe)
                return text

            return None if text is None else tell

        arguments: dict[str, Any] = {"tls": client_context(options.get("ca"))} if is_safe else {}
        if address.password is None:
            arguments["token"] = secret(address.user)
        else:
            arguments |= {"user": secret(address.user), "password": secret(address.password)}
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.client = self._nats.NATS()
        await self.client.connect(
            f"nats://{host}:{address.port or 4222}",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=ANSWER_SECONDS,
            error_cb=store_error,
            disconnected_cb=lost,
            closed_cb=lost,
            **arguments,
        )
        self._check(is_safe)

    def _check(self, is_safe: bool) -> None:
        if is_safe and not self.client._server_info.get("tls_required"):
            raise Refused("it does not speak TLS")

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """Run ``work``, which may take some seconds besides the answer's time limit."""
        if self._loop.is_closed():
            work.close()
            raise ConnectionError("the connection was lost")
        errors = importlib.import_module("nats.errors")
        refused = importlib.import_module("nats.js.errors").APIError
        done = asyncio.run_coroutine_threadsafe(self._while_connected(work), self._loop)
        try:
            return done.result(seconds + ANSWER_SECONDS)
        except refused as error:
            if error.code == 503 and error.err_code in _PASSING:
                raise ConnectionError("JetStream does not answer: is it switched on?") from None
            raise Refused(hide(str(error.description))) from None
        except (errors.AuthorizationError, errors.MaxPayloadError) as error:
            raise Refused(hide(str(error).removeprefix("nats: "))) from None
        except (errors.Error, OSError) as error:
            done.cancel()
            cause = self._error or error
            text = getattr(cause, "strerror", None) or str(cause) or "no answer in time"
            raise ConnectionError(f"the server does not answer: {hide(text)}") from None

    async def _while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``; raise ConnectionError if the connection is lost meanwhile."""
        task, lost = asyncio.ensure_future(work), asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((task, lost), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled():
                return task.result()
            raise ConnectionError("the connection was lost")
        finally:
            task.cancel()
            lost.cancel()
            await asyncio.gather(task, lost, return_exceptions=True)

    async def _end(self) -> None:
        with suppress(Exception):  # for example if it never connected
            await asyncio.wait_for(self.client.close(), _FAREWELL_SECONDS)

    def extent(self) -> tuple[int, int]:
        """The sequence number of the stream's first message, and the number after its last."""
        info = self.do(self.streams.stream_info(self._address.path))
        if info.config.retention not in (None, "limits"):
            raise Refused(
                f"its retention is {info.config.retention}: only a stream with retention limits can be read again"
            )
        end = info.state.last_seq + 1
        return (max(info.state.first_seq, 1) if info.state.messages else end), end

    def check_subject(self, subject: str) -> None:
        """Raise `Refused` if the stream does not store messages of the subject."""
        try:
            stream = self.do(self.streams.find_stream_name_by_subject(subject))
        except Refused:
            stream = "no stream"
        if stream != self._address.path:
            raise Refused(f"{subject} is a subject of {stream}, and not of {self._address.path}")

    def close(self) -> None:
        """Close the connection and stop the thread."""
        if not self._loop.is_closed():
            with suppress(OSError):
                asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(ANSWER_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Tail:
    """The messages of a stream, or of a subject, from an offset. Raises the errors of `Connection`."""

    def __init__(self, connection: Connection, stream: str, subject: str, offset: int) -> None:
        self._connection, self._stream, self._subject = connection, stream, subject
        self.offset = offset
        """All messages before it were returned."""
        self._count = 0
        self._due = 0  # messages still due for the open request,
        self._until = 0.0  # and its deadline
        self._arrived = time.monotonic()  # time of the last message
        connection.do(self._begin())

    async def _begin(self) -> None:
        api = importlib.import_module("nats.js.api")
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.offset,
            ack_policy=api.AckPolicy.NONE,
            filter_subject=self._subject or None,
            inactive_threshold=KEPT_SECONDS,
            mem_storage=True,
            num_replicas=1,
        )
        consumer = await self._connection.streams.add_consumer(self._stream, config)
        client = self._connection.client
        self._consumer, self._inbox = consumer.name, client.new_inbox()
        self._answers = await client.subscribe(self._inbox, pending_bytes_limit=0)

    def next_messages(self, seconds: float) -> list[Any]:
        """Wait for the next messages, and return all that have arrived."""
        messages = self._connection.do(self._pull(seconds), seconds)
        metadata = [message.metadata.sequence for message in messages]
        first = self._count + 1
        if [entry.consumer for entry in metadata] != [*range(first, first + len(messages))]:
            raise ConnectionError("messages were lost in transit")
        if messages and metadata[0].stream > self.offset:
            low, _ = self._connection.extent()
            check_extent(self.offset, low)
        self._count += len(messages)
        self._arrived = time.monotonic() if messages else self._arrived
        self.offset = metadata[-1].stream + 1 if messages else self.offset
        return messages

    async def _pull(self, seconds: float) -> list[Any]:
        """The messages that arrive. A request stays open between calls, so that a slow server need not restart it."""
        messages = list[Any]()
        if self._due <= 0:
            request = {"batch": AT_ONCE, "expires": int(_REQUEST_SECONDS * 1e9)}
            subject = f"{_NEXT}.{self._stream}.{self._consumer}"
            await self._connection.client.publish(subject, json.dumps(request).encode(), self._inbox)
            self._due, self._until = AT_ONCE, time.monotonic() + _REQUEST_SECONDS + _LATE_SECONDS
        while self._due > 0:
            try:
                message = await self._answers.next_msg(_LINGER_SECONDS if messages else seconds)
            except TimeoutError:
                now = time.monotonic()
                if not messages and self._due == AT_ONCE and now > self._until:
                    raise ConnectionError("the server does not answer a request for messages") from None
                if not messages and self._due < AT_ONCE and now > self._arrived + _PART_SECONDS:
                    self._due = 0
                break
            status = (message.headers or {}).get("Status")
            if status in _NOTHING:
                self._due = 0
                break
            if status is not None:
                raise ConnectionError(f"the server answered {status}")
            messages.append(message)
            self._due -= 1
        return messages

    def look(self) -> None:
        """Advance the offset to the stream's end, if all its messages were returned."""
        _, end = self._connection.extent()
        try:
            info = self._connection.do(self._connection.streams.consumer_info(self._stream, self._consumer))
        except Refused as error:
            raise ConnectionError(f"the server has removed the consumer: {error}") from None
        if info.delivered.consumer_seq != self._count:
            if time.monotonic() - self._arrived > _LATE_SECONDS:
                raise ConnectionError("messages were lost in transit")
        elif not info.num_pending:
            self.offset = max(self.offset, end)

    def replace(self, before: Tail) -> None:
        """Delete the consumer of an earlier tail, whose connection was lost."""
        with suppress(OSError, Refused):
            self._connection.do(self._delete(before._consumer))

    def close(self) -> None:
        """Delete the consumer, if the server can be reached."""
        self.replace(self)

    async def _delete(self, consumer: str) -> None:
        """Request the deletion without waiting: after `KEPT_SECONDS`, the server deletes the consumer itself."""
        client = self._connection.client
        await client.publish(f"{_DELETE}.{self._stream}.{consumer}", b"", client.new_inbox())
        await client.flush(_FAREWELL_SECONDS)


def check_extent(offset: int, low: int, high: int | None = None) -> None:
    """Raise `Refused` if the next message is not in the stream, which holds messages ``low`` to ``high``."""
    if offset < low:
        raise Refused(f"message {offset} no longer exists: start again from the beginning")
    if high is not None and offset > high:
        raise Refused(
            f"message {offset - 1} no longer exists: is it another stream? Start again from the beginning"
        )
