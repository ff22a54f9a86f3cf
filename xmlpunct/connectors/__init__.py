"""What a connector is written with: docs/connectors.md shows how.

>>> Connector().outlet("example://host", "example://host")
Traceback (most recent call last):
xmlpunct.base.errors.UsageError: nothing is written to example://: name a file, and copy it there
"""

from xmlpunct.connectors.contract import Connector, Form, Inlet, Outlet, Results

__all__ = ["Connector", "Form", "Inlet", "Outlet", "Results"]
