"""The operators: one stream iterator per file, and the driver that runs them."""

from typing import TYPE_CHECKING

from xmlpunct.base.lazy_imports import found_later
from xmlpunct.operators.driver import Counters, Pipeline, run
from xmlpunct.operators.group import (  # noqa: F401  importing them registers their records
    aggregate_functions,
    arg_min_max,
    collecting_aggregates,
    variance,
)
from xmlpunct.operators.group.aggregate import Aggregate
from xmlpunct.operators.group.group_by import GroupBy
from xmlpunct.operators.group.partial_group_by import PartialGroupBy
from xmlpunct.operators.iterator import Operator
from xmlpunct.operators.join.join import Join
from xmlpunct.operators.join.not_in import NotIn
from xmlpunct.operators.merge.merge import Merge
from xmlpunct.operators.sets.partial_dupelim import PartialDupElim
from xmlpunct.operators.sets.pointwise import Pointwise
from xmlpunct.operators.time.drop_overlap import DropOverlap
from xmlpunct.operators.time.key import Key
from xmlpunct.operators.time.late_filter import LateFilter
from xmlpunct.operators.time.over.calls import Frame as OverFrame
from xmlpunct.operators.time.over.calls import Release as OverRelease
from xmlpunct.operators.time.over.calls import WindowCall as OverCall
from xmlpunct.operators.time.prefix import SortKey
from xmlpunct.operators.time.punctuate import Punctuate
from xmlpunct.operators.time.sort import Sort
from xmlpunct.operators.tuple.limit import Limit
from xmlpunct.operators.tuple.project import Project
from xmlpunct.operators.tuple.scan import Scan
from xmlpunct.operators.tuple.select import Select
from xmlpunct.operators.tuple.unnest import Unnest

if TYPE_CHECKING:
    from xmlpunct.operators.windowed import (
        ChangeGroupBy,
        ChangeJoin,
        ChangeSemi,
        Hop,
        Over,
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
            "windowed": "ChangeGroupBy ChangeJoin ChangeSemi Hop Over Relation RowsWindow Session "
            "ToStream Window WindowPromises"
        },
    )


__all__ = [
    "Aggregate",
    "ChangeGroupBy",
    "ChangeJoin",
    "ChangeSemi",
    "Counters",
    "DropOverlap",
    "GroupBy",
    "Hop",
    "Join",
    "Key",
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
    "Pointwise",
    "Project",
    "Punctuate",
    "Relation",
    "RowsWindow",
    "Scan",
    "Select",
    "Session",
    "Sort",
    "SortKey",
    "ToStream",
    "Unnest",
    "Window",
    "WindowPromises",
    "run",
]
