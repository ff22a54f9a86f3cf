"""Who is trusted: the system's authorities, those of the file that ``SSL_CERT_FILE`` names, or one that is given."""

from __future__ import annotations

import ssl

from xmlpunct.base.errors import UsageError


def client_context(ca: str | None = None) -> ssl.SSLContext:
    """How to connect to servers whose certificate is theirs, and from an authority in the file ``ca`` if given."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        what = (
            error.strerror
            if isinstance(error, FileNotFoundError | PermissionError)
            else "it has no certificates"
        )
        raise UsageError(f"cannot read certificates from {ca}: {what}") from None
