"""The operators: one stream iterator per file, and the driver that runs them."""

from xmlpunct.operators.aggregate import Aggregate
from xmlpunct.operators.driver import Counters, Pipeline, run
from xmlpunct.operators.dupelim import DupElim
from xmlpunct.operators.group_by import GroupBy
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.merge import Merge
from xmlpunct.operators.project import Project
from xmlpunct.operators.select import Select
from xmlpunct.operators.union import Union

__all__ = [
    "Aggregate",
    "Counters",
    "DupElim",
    "GroupBy",
    "Merge",
    "Operator",
    "Pipeline",
    "Project",
    "Select",
    "Union",
    "run",
]
