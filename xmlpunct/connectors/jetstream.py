"""Connections to NATS JetStream, and what is read over them."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from xmlpunct.base.errors import UsageError, undoing
from xmlpunct.base.secrets import hide
from xmlpunct.connectors.messages import ANSWER_SECONDS
from xmlpunct.connectors.tls import client_context
from xmlpunct.connectors.url import Address

AT_ONCE = 256
"""So many messages are asked for, or sent, before the server has to answer."""
KEPT_SECONDS = 300.0
"""How long the server remembers a reader that asks for nothing."""
_NEXT = "$JS.API.CONSUMER.MSG.NEXT"
_NOTHING = ("404", "408")
_PASSING = (None, 0, 10008)
"""Why the server may be unavailable only for now: nobody answers, or a cluster chooses a leader."""
_DELETE = "$JS.API.CONSUMER.DELETE"
_FAREWELL_SECONDS = 1.0
_REQUEST_SECONDS = 5.0
"""The time limit of a request for messages."""
_PART_SECONDS = 1.0
"""After a partial answer and this silence a new request is sent: some servers drop the rest of an answer."""
_LATE_SECONDS = 5.0
"""A request without an answer this long after its time limit is lost."""
_LINGER_SECONDS = 0.01
"""How long to wait for another message behind one that has arrived."""

T = TypeVar("T")


class Refused(Exception):
    """The server says no. Trying again is no use."""


class Connection:
    """A connection, and the loop that it lives in, in a thread of its own.

    Its methods raise OSError where the connection is lost, and `Refused`.
    """

    def __init__(self, address: Address) -> None:
        self._nats, self._address = _library(), address
        self._loop = asyncio.new_event_loop()
        self._lost = asyncio.Event()
        self._told: Exception | None = None
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

        async def told(error: Exception) -> None:
            self._told = error

        def secret(text: str | None) -> Any:
            """A part of the credentials, which the server gets if the connection is what it has to be."""

            def tell() -> str | None:
                self._check(is_safe)
                return text

            return None if text is None else tell

        given: dict[str, Any] = {"tls": client_context(options.get("ca"))} if is_safe else {}
        if address.password is None:
            given["token"] = secret(address.user)
        else:
            given |= {"user": secret(address.user), "password": secret(address.password)}
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.client = self._nats.NATS()
        await self.client.connect(
            f"nats://{host}:{address.port or 4222}",
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=ANSWER_SECONDS,
            error_cb=told,
            disconnected_cb=lost,
            closed_cb=lost,
            **given,
        )
        self._check(is_safe)

    def _check(self, is_safe: bool) -> None:
        if is_safe and not self.client._server_info.get("tls_required"):
            raise Refused("it does not speak TLS")

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """Wait for something that takes so long, and for the answer."""
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
            said = self._told or error
            text = getattr(said, "strerror", None) or str(said) or "it is silent"
            raise ConnectionError(f"the server does not answer: {hide(text)}") from None

    async def _while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something, unless the connection is lost meanwhile."""
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
        with suppress(Exception):  # such as of a connection that did not come about
            await asyncio.wait_for(self.client.close(), _FAREWELL_SECONDS)

    def extent(self) -> tuple[int, int]:
        """The sequence number of the stream's first message, and that behind the last."""
        info = self.do(self.streams.stream_info(self._address.path))
        if info.config.retention not in (None, "limits"):
            raise Refused(f"its retention is {info.config.retention}: only what has limits can be read again")
        behind = info.state.last_seq + 1
        return (max(info.state.first_seq, 1) if info.state.messages else behind), behind

    def check_subject(self, subject: str) -> None:
        """Raise `Refused` if what is sent there does not come into the stream."""
        try:
            there = self.do(self.streams.find_stream_name_by_subject(subject))
        except Refused:
            there = "no stream"
        if there != self._address.path:
            raise Refused(f"{subject} is a subject of {there}, and not of {self._address.path}")

    def close(self) -> None:
        """Let go of it, and of the thread."""
        if not self._loop.is_closed():
            with suppress(OSError):
                asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(ANSWER_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Tail:
    """The messages of a stream from one on, or those of a subject. Raises what `Connection` does."""

    def __init__(self, connection: Connection, stream: str, subject: str, offset: int) -> None:
        self._connection, self._stream, self._subject = connection, stream, subject
        self.offset = offset
        """All that is before it was given."""
        self._count = 0
        self._due = 0  # messages that the standing request still asks for,
        self._until = 0.0  # and when it must have been answered
        self._arrived = time.monotonic()  # when the last message did
        connection.do(self._begin())

    async def _begin(self) -> None:
        api = importlib.import_module("nats.js.api")
        wanted = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.offset,
            ack_policy=api.AckPolicy.NONE,
            filter_subject=self._subject or None,
            inactive_threshold=KEPT_SECONDS,
            mem_storage=True,
            num_replicas=1,
        )
        made = await self._connection.streams.add_consumer(self._stream, wanted)
        client = self._connection.client
        self._consumer, self._inbox = made.name, client.new_inbox()
        self._answers = await client.subscribe(self._inbox, pending_bytes_limit=0)

    def more(self, seconds: float) -> list[Any]:
        """Wait so long for the next messages, and give those that have arrived."""
        found = self._connection.do(self._pull(seconds), seconds)
        places = [message.metadata.sequence for message in found]
        if [place.consumer for place in places] != [*range(self._count + 1, self._count + 1 + len(found))]:
            raise ConnectionError("messages were lost on their way")
        if found and places[0].stream > self.offset:
            low, _ = self._connection.extent()
            check_extent(self.offset, low)
        self._count += len(found)
        self._arrived = time.monotonic() if found else self._arrived
        self.offset = places[-1].stream + 1 if found else self.offset
        return found

    async def _pull(self, seconds: float) -> list[Any]:
        """The messages that arrive. A request stands from call to call, so that a slow server need not begin anew."""
        found = list[Any]()
        if self._due <= 0:
            wanted = {"batch": AT_ONCE, "expires": int(_REQUEST_SECONDS * 1e9)}
            subject = f"{_NEXT}.{self._stream}.{self._consumer}"
            await self._connection.client.publish(subject, json.dumps(wanted).encode(), self._inbox)
            self._due, self._until = AT_ONCE, time.monotonic() + _REQUEST_SECONDS + _LATE_SECONDS
        while self._due > 0:
            try:
                message = await self._answers.next_msg(_LINGER_SECONDS if found else seconds)
            except TimeoutError:
                now = time.monotonic()
                if not found and self._due == AT_ONCE and now > self._until:
                    raise ConnectionError("the server does not answer a request for messages") from None
                if not found and self._due < AT_ONCE and now > self._arrived + _PART_SECONDS:
                    self._due = 0
                break
            status = (message.headers or {}).get("Status")
            if status in _NOTHING:
                self._due = 0
                break
            if status is not None:
                raise ConnectionError(f"the server says {status}")
            found.append(message)
            self._due -= 1
        return found

    def look(self) -> None:
        """See how far the stream is, if all that is there was given."""
        _, behind = self._connection.extent()
        try:
            told = self._connection.do(self._connection.streams.consumer_info(self._stream, self._consumer))
        except Refused as error:
            raise ConnectionError(f"the server has forgotten the reader: {error}") from None
        if told.delivered.consumer_seq != self._count:
            if time.monotonic() - self._arrived > _LATE_SECONDS:
                raise ConnectionError("messages were lost on their way")
        elif not told.num_pending:
            self.offset = max(self.offset, behind)

    def replace(self, before: Tail) -> None:
        """Take the place of a tail whose connection was lost: its consumer is deleted."""
        with suppress(OSError, Refused):
            self._connection.do(self._delete(before._consumer))

    def close(self) -> None:
        """Delete the consumer, if the server can be reached."""
        self.replace(self)

    async def _delete(self, consumer: str) -> None:
        """Ask for it, and do not wait for the answer: what is not deleted the server forgets in time."""
        client = self._connection.client
        await client.publish(f"{_DELETE}.{self._stream}.{consumer}", b"", client.new_inbox())
        await client.flush(_FAREWELL_SECONDS)


def check_extent(offset: int, low: int, high: int | None = None) -> None:
    """Raise `Refused` if what was next is not in the stream, which has messages from ``low`` on."""
    if offset < low:
        raise Refused(f"message {offset} is not there any more: start anew")
    if high is not None and offset > high:
        raise Refused(f"message {offset - 1} was there, and is not: is it another stream? Start anew")


def _library() -> Any:
    try:
        return importlib.import_module("nats")
    except ImportError:
        raise UsageError("nats:// needs nats-py: pip install 'xmlpunct[nats]'") from None
