"""Small SQLite databases as BOXes, and compiled programs run in this process (the compiler's own code)."""

from __future__ import annotations

import math
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sql_grammar

from pandora_train.box import boxes_for
from pandora_train.box.box import Box, BoxSet
from pandora_train.box.database import column
from pandora_train.compile import Compiled
from pandora_train.compile.sql.query import compile_sql
from pandora_train.metrics.spider import ex_match, is_ordered
from pandora_train.records import DatabaseKnowledge


def write(path: Path, *statements: str) -> Path:
    """A SQLite file made by ``statements``."""
    con = sqlite3.connect(path)
    for statement in statements:
        con.execute(statement)
    con.commit()
    con.close()
    return path


def boxes_of(path: Path) -> BoxSet:
    """The file as BOXes."""
    return boxes_for(DatabaseKnowledge(path=str(path), db_id=path.stem))


def boxes_in(con: sqlite3.Connection) -> BoxSet:
    """The tables of the grammar as BOXes, typed as the database BOX types them."""
    boxes = []
    for table, columns in sql_grammar.TABLES.items():
        cells = list(zip(*con.execute(f"SELECT * FROM {table}"), strict=True))
        data = {name: column(values, kind)[0]
                for (name, kind), values in zip(columns.items(), cells, strict=True)}
        boxes.append(Box(table, pd.DataFrame(data), table))
    return BoxSet(tuple(boxes))


def run(code: str, boxes: BoxSet) -> list[tuple[Any, ...]]:
    """``result`` of compiled code as typed rows; warnings of pandas are errors."""
    names: dict[str, Any] = {"pd": pd, "np": np, **boxes.frames()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.filterwarnings("ignore", "You are merging on int and float columns", UserWarning)
        exec(compile(code, "<compiled>", "exec"), names)
    return [tuple(map(_plain, row)) for row in names["result"]]


def _plain(cell: Any) -> Any:
    if cell is None or cell is pd.NA or (isinstance(cell, float) and math.isnan(cell)):
        return None
    return cell.item() if isinstance(cell, np.generic) else cell


def difference(path: Path, sql: str) -> str:
    """Empty when the compiled program gives what SQLite gives, else both and the code."""
    con = sqlite3.connect(path)
    gold = con.execute(sql).fetchall()
    con.close()
    program: Compiled = compile_sql(sql, boxes_of(path))
    rows = run(program.code, boxes_of(path))
    if ex_match(gold, rows, is_ordered(sql), typed=True):
        return ""
    return f"{sql}\n{program.code}\nSQLite {gold}\npandas {rows}"
