"""Connectors: bytes in and out. The exported classes are the API for new connectors; docs/connectors.md has examples.

>>> from xmlpunct.connectors import Connector
>>> Connector().outlet("example://host", "example://host")
Traceback (most recent call last):
xmlpunct.base.errors.UsageError: example:// is not an output: name a file, and copy it there
"""

from typing import TYPE_CHECKING

from xmlpunct.base.lazy_imports import found_later

if TYPE_CHECKING:
    from xmlpunct.connectors.contract import Connector
    from xmlpunct.connectors.inlet import Inlet
    from xmlpunct.connectors.outlet import Form, Outlet, Results
else:
    __getattr__, __dir__ = found_later(
        __name__, {"contract": "Connector", "inlet": "Inlet", "outlet": "Form Outlet Results"}
    )

__all__ = ["Connector", "Form", "Inlet", "Outlet", "Results"]
