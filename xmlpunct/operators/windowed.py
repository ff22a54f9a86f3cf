"""The operators of windows, relations and OVER, loaded only if a query has one of them."""

from xmlpunct.operators.relations.change_group_by import ChangeGroupBy as ChangeGroupBy
from xmlpunct.operators.relations.change_join import ChangeJoin as ChangeJoin
from xmlpunct.operators.relations.change_semijoin import ChangeSemi as ChangeSemi
from xmlpunct.operators.relations.relation import Relation as Relation
from xmlpunct.operators.relations.rows_window import RowsWindow as RowsWindow
from xmlpunct.operators.relations.to_stream import ToStream as ToStream
from xmlpunct.operators.relations.window import Window as Window
from xmlpunct.operators.time.over.over import Over as Over
from xmlpunct.operators.time.windows.hop import Hop as Hop
from xmlpunct.operators.time.windows.hop import WindowPromises as WindowPromises
from xmlpunct.operators.time.windows.session import Session as Session
