"""The operators: one stream iterator per file, and the driver that runs them."""

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
from xmlpunct.operators.over import Call as OverCall
from xmlpunct.operators.over import Frame as OverFrame
from xmlpunct.operators.over import Over
from xmlpunct.operators.over import Release as OverRelease
from xmlpunct.operators.partial_dupelim import PartialDupElim
from xmlpunct.operators.partial_group_by import PartialGroupBy
from xmlpunct.operators.prefix import SortKey
from xmlpunct.operators.project import Project
from xmlpunct.operators.punctuate import Punctuate
from xmlpunct.operators.relations.change_group_by import ChangeGroupBy
from xmlpunct.operators.relations.join import ChangeJoin
from xmlpunct.operators.relations.negated import Negated
from xmlpunct.operators.relations.pointwise import Pointwise
from xmlpunct.operators.relations.relation import Relation
from xmlpunct.operators.relations.rows_window import RowsWindow
from xmlpunct.operators.relations.semijoin import ChangeSemi
from xmlpunct.operators.relations.to_stream import ToStream
from xmlpunct.operators.relations.window import Window
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
