"""The operators: one stream iterator per file, and the driver that runs them."""

from typing import TYPE_CHECKING

from xmlpunct.later import found_later
from xmlpunct.operators import best, gathered, moments  # noqa: F401  their records
from xmlpunct.operators.aggregate import Aggregate
from xmlpunct.operators.difference import Difference
from xmlpunct.operators.driver import Counters, Pipeline, run
from xmlpunct.operators.dupelim import DupElim
from xmlpunct.operators.group_by import GroupBy
from xmlpunct.operators.intersect import Intersect
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.join import Join
from xmlpunct.operators.key import Key
from xmlpunct.operators.late_filter import LateFilter
from xmlpunct.operators.limit import Limit
from xmlpunct.operators.merge import Merge
from xmlpunct.operators.not_in import NotIn
from xmlpunct.operators.over.calls import Call as OverCall
from xmlpunct.operators.over.calls import Frame as OverFrame
from xmlpunct.operators.over.calls import Release as OverRelease
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

if TYPE_CHECKING:
    from xmlpunct.operators.windowed import (
        ChangeGroupBy,
        ChangeJoin,
        ChangeSemi,
        Hop,
        Negated,
        Over,
        Pointwise,
        Relation,
        RowsWindow,
        Session,
        ToStream,
        Window,
        WindowPromises,
    )
else:
    __getattr__, __dir__ = found_later(
        __name__,
        {
            "windowed": "ChangeGroupBy ChangeJoin ChangeSemi Hop Negated Over Pointwise Relation RowsWindow Session "
            "ToStream Window WindowPromises"
        },
    )


__all__ = [
    "Aggregate",
    "ChangeGroupBy",
    "ChangeJoin",
    "ChangeSemi",
    "Counters",
    "Difference",
    "DupElim",
    "GroupBy",
    "Hop",
    "Intersect",
    "Join",
    "Key",
    "LateFilter",
    "Limit",
    "Merge",
    "Negated",
    "NotIn",
    "Operator",
    "Over",
    "OverCall",
    "OverFrame",
    "OverRelease",
    "PartialDupElim",
    "PartialGroupBy",
    "Pipeline",
    "Pointwise",
    "Project",
    "Punctuate",
    "Relation",
    "RowsWindow",
    "Scan",
    "Select",
    "SemiJoin",
    "Session",
    "Sort",
    "SortKey",
    "ToStream",
    "Union",
    "Unnest",
    "Window",
    "WindowPromises",
    "run",
]
