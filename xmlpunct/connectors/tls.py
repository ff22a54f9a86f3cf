"""Certificate authorities for TLS: the system's, those in the file ``SSL_CERT_FILE``, or those in a configured file."""

from __future__ import annotations

import ssl

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
