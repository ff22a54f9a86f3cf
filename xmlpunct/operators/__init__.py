"""The operators: one stream iterator per file, and the driver that runs them."""

from xmlpunct.operators.aggregate import Aggregate
from xmlpunct.operators.difference import Difference
from xmlpunct.operators.driver import Counters, Pipeline, run
from xmlpunct.operators.dupelim import DupElim
from xmlpunct.operators.group_by import GroupBy
from xmlpunct.operators.intersect import Intersect
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.join import Join
from xmlpunct.operators.late_filter import LateFilter
from xmlpunct.operators.limit import Limit
from xmlpunct.operators.merge import Merge
from xmlpunct.operators.not_in import NotIn
from xmlpunct.operators.over import Call as OverCall
from xmlpunct.operators.over import Frame as OverFrame
from xmlpunct.operators.over import Over
from xmlpunct.operators.over import Release as OverRelease
from xmlpunct.operators.partial_dupelim import PartialDupElim
from xmlpunct.operators.partial_group_by import PartialGroupBy
from xmlpunct.operators.prefix import SortKey
from xmlpunct.operators.project import Project
from xmlpunct.operators.punctuate import Punctuate
from xmlpunct.operators.scan import Scan
from xmlpunct.operators.select import Select
from xmlpunct.operators.semijoin import SemiJoin
from xmlpunct.operators.sort import Sort
from xmlpunct.operators.union import Union
from xmlpunct.operators.unnest import Unnest
from xmlpunct.operators.windows.hop import Hop, WindowPromises
from xmlpunct.operators.windows.session import Session

__all__ = [
    "Aggregate",
    "Counters",
    "Difference",
    "DupElim",
    "GroupBy",
    "Hop",
    "Intersect",
    "Join",
    "LateFilter",
    "Limit",
    "Merge",
    "NotIn",
    "Operator",
    "Over",
    "OverCall",
    "OverFrame",
    "OverRelease",
    "PartialDupElim",
    "PartialGroupBy",
    "Pipeline",
    "Project",
    "Punctuate",
    "Scan",
    "Select",
    "SemiJoin",
    "Session",
    "Sort",
    "SortKey",
    "Union",
    "Unnest",
    "WindowPromises",
    "run",
]
