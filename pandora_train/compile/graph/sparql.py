"""SPARQL to pandas, parsed by rdflib: as a tree of patterns where it is one, else as joined frames."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import parseQuery

from pandora_train.box.box import BoxSet
from pandora_train.box.store import open_graph
from pandora_train.box.triples import Graph
from pandora_train.compile.graph.frames import compile_frames
from pandora_train.compile.graph.sets import SetWriter
from pandora_train.compile.graph.tree import NotATree, compile_tree
from pandora_train.compile.writer import Compiled, Unsupported
from pandora_train.errors import first_line
from pandora_train.records import GraphKnowledge

FOR_FRAMES = {"relation in several BOXes", "time constraint on a relation in a BOX of its own"}
"""Reasons for which a tree is declined and joined frames are not."""
_QUOTED_OR = re.compile(r"""<[^>\s]*>|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|#[^\n]*|\bOR\b""")
"""``OR``, and what it must not be looked for in: IRIs, strings, comments."""
_PARSING = threading.Lock()
"""rdflib's grammar is shared and not made for threads: in two at once, one in a hundred parses fails."""
DATES = "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"


def compile_sparql(query: str, boxes: BoxSet, knowledge: GraphKnowledge | Graph,
                   names: Mapping[str, str] | None = None) -> Compiled:
    """Compile a SELECT query. ``names`` maps ids (an IRI's last part) to node names, before the store's own.

    Raises :class:`Unsupported` with a named reason, also for a query that doesn't parse.
    """
    try:
        with _PARSING:
            algebra = translateQuery(parseQuery(standard(query))).algebra
    except Exception as e:  # rdflib raises many kinds for text that is not SPARQL
        raise Unsupported("does not parse", first_line(e)[:200]) from None
    if algebra.name != "SelectQuery":
        raise Unsupported("not a SELECT query", algebra.name)
    graph = knowledge if isinstance(knowledge, Graph) else open_graph(knowledge)
    try:
        return compile_tree(algebra.p, SetWriter(boxes, graph, names))
    except NotATree:  # a fresh writer below: nothing of the tree stays written
        pass
    except Unsupported as e:
        if e.reason not in FOR_FRAMES:
            raise
    return compile_frames(algebra.p, SetWriter(boxes, graph, names))


def standard(query: str) -> str:
    """Two liberties that Virtuoso allows and WebQSP takes: ``OR`` for ``||``, ``xsd:`` undeclared."""
    text = _QUOTED_OR.sub(lambda m: "||" if m.group() == "OR" else m.group(), query)
    return text if re.search(r"(?i)prefix\s+xsd:", text) else DATES + text
