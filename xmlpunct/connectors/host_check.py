"""Host-header check: refuses requests from other sites (DNS rebinding)."""

from __future__ import annotations

import ipaddress
from contextlib import suppress

LOOPBACK = "127.0.0.1"
"""A server that listens on this address is reachable from this machine only."""


def is_meant(header: str, listens_on: str) -> bool:
    """True if a Host header refers to this server: by an address, or by the name on which it listens.

    >>> [is_meant(host, "127.0.0.1") for host in ("localhost:80", "[::1]:80", "10.0.0.1", "evil.example:80", "")]
    [True, True, True, False, False]
    """
    name = header.rpartition(":")[0] if ":" in header.rpartition("]")[2] else header
    name = name.removeprefix("[").removesuffix("]").lower()
    if name in ("localhost", listens_on.lower()):
        return True
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def is_own_page(origin: str | None, host: str) -> bool:
    """True if a request with this Origin header comes from a page of the requested host, or from no page.

    >>> is_own_page(None, "h:1"), is_own_page("http://h:1", "h:1"), is_own_page("http://evil.example", "h:1")
    (True, True, False)
    """
    return origin is None or origin.partition("://")[2] == host
