"""TLS: certificate authorities, from the system, ``SSL_CERT_FILE`` or a configured file; ending reads of a socket."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress

from xmlpunct.base.errors import UsageError


def client_context(ca: str | None = None) -> ssl.SSLContext:
    """A context that verifies a server's name and certificate, with the authorities in the file ``ca`` if set."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        reason = (
            error.strerror
            if isinstance(error, FileNotFoundError | PermissionError)
            else "it has no certificates"
        )
        raise UsageError(f"cannot read certificates from {ca}: {reason}") from None


def end_reads(connection: socket.socket) -> None:
    """Make a read that waits on a socket, in any thread, return no bytes."""
    with suppress(OSError):
        # Not the method of a TLS socket, after which remaining data would be read undecrypted.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
