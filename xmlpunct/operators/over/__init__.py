"""OVER: functions of a row and of the rows near it in the order of time, one partition beside the other."""

from xmlpunct.operators.over.calls import Call, Frame, Release
from xmlpunct.operators.over.over import Over

__all__ = ["Call", "Frame", "Over", "Release"]
