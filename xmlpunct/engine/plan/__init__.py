"""The plan: a tree of nodes, each of which knows the operator it stands for.

To register a new operator, add its node to the module of its family, and to this list.
"""

from xmlpunct.engine.plan.exchange import Exchange as Exchange
from xmlpunct.engine.plan.exchange import Receive as Receive
from xmlpunct.engine.plan.groups import DupElim as DupElim
from xmlpunct.engine.plan.groups import GroupBy as GroupBy
from xmlpunct.engine.plan.groups import PartialDupElim as PartialDupElim
from xmlpunct.engine.plan.groups import PartialGroupBy as PartialGroupBy
from xmlpunct.engine.plan.joins import Join as Join
from xmlpunct.engine.plan.joins import Keys as Keys
from xmlpunct.engine.plan.joins import NotIn as NotIn
from xmlpunct.engine.plan.joins import SemiJoin as SemiJoin
from xmlpunct.engine.plan.node import Binary as Binary
from xmlpunct.engine.plan.node import Choice as Choice
from xmlpunct.engine.plan.node import Holders as Holders
from xmlpunct.engine.plan.node import Lasting as Lasting
from xmlpunct.engine.plan.node import Node as Node
from xmlpunct.engine.plan.node import Place as Place
from xmlpunct.engine.plan.node import Unary as Unary
from xmlpunct.engine.plan.node import attributes as attributes
from xmlpunct.engine.plan.node import column as column
from xmlpunct.engine.plan.node import fresh as fresh
from xmlpunct.engine.plan.node import is_changing as is_changing
from xmlpunct.engine.plan.node import plain as plain
from xmlpunct.engine.plan.node import timing as timing
from xmlpunct.engine.plan.query import Opened as Opened
from xmlpunct.engine.plan.query import Query as Query
from xmlpunct.engine.plan.query import numbered as numbered
from xmlpunct.engine.plan.relations import Again as Again
from xmlpunct.engine.plan.relations import ChangeGroupBy as ChangeGroupBy
from xmlpunct.engine.plan.relations import ChangeJoin as ChangeJoin
from xmlpunct.engine.plan.relations import ChangeSemi as ChangeSemi
from xmlpunct.engine.plan.relations import Negated as Negated
from xmlpunct.engine.plan.relations import Pointwise as Pointwise
from xmlpunct.engine.plan.relations import instants_of as instants_of
from xmlpunct.engine.plan.sets import Difference as Difference
from xmlpunct.engine.plan.sets import Intersect as Intersect
from xmlpunct.engine.plan.sets import Merge as Merge
from xmlpunct.engine.plan.sets import Union as Union
from xmlpunct.engine.plan.streams import Guard as Guard
from xmlpunct.engine.plan.streams import Punctuate as Punctuate
from xmlpunct.engine.plan.streams import Scan as Scan
from xmlpunct.engine.plan.streams import Stream as Stream
from xmlpunct.engine.plan.streams import columns_read as columns_read
from xmlpunct.engine.plan.tuples import Limit as Limit
from xmlpunct.engine.plan.tuples import Project as Project
from xmlpunct.engine.plan.tuples import Select as Select
from xmlpunct.engine.plan.tuples import Sort as Sort
from xmlpunct.engine.plan.tuples import Unnest as Unnest
from xmlpunct.engine.plan.windows import Declared as Declared
from xmlpunct.engine.plan.windows import RowsWindow as RowsWindow
from xmlpunct.engine.plan.windows import ToRelation as ToRelation
from xmlpunct.engine.plan.windows import ToStream as ToStream
from xmlpunct.engine.plan.windows import Window as Window
from xmlpunct.engine.plan.windows import timestamp_name as timestamp_name
