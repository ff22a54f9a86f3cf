"""XML names, and the namespace of punctuations."""

from __future__ import annotations

import re

PUNCT_NAMESPACE = "http://www.cse.ogi.edu/dot/niagara/punct"
"""The default namespace of punctuations."""

_START = (
    r"A-Z_a-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
_XML_NAME = re.compile(rf"[{_START}][{_START}\-.0-9\u00B7\u0300-\u036F\u203F-\u2040]*")


def is_xml_name(name: str) -> bool:
    """Whether ``name`` is a valid name of an element, without a prefix."""
    return _XML_NAME.fullmatch(name) is not None
