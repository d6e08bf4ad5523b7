"""Random small databases and random queries over them, for SQLite against the compiled pandas."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass, field

TABLES = {
    "shop": {"id": "INTEGER PRIMARY KEY", "town": "TEXT", "size": "INTEGER", "rating": "REAL", "code": "TEXT"},
    "item": {"id": "INTEGER PRIMARY KEY", "shop_id": "INTEGER", "name": "TEXT", "price": "INTEGER",
             "weight": "REAL", "made": "TEXT"},
    "sale": {"item_id": "INTEGER", "shop_id": "INTEGER", "amount": "INTEGER", "note": "TEXT"},
}
KINDS = {"id": "key", "town": "text", "size": "int", "rating": "real", "code": "digits", "shop_id": "ref",
         "name": "text", "price": "int", "weight": "real", "made": "date", "item_id": "ref", "amount": "int",
         "note": "text"}
VALUES: dict[str, list[object]] = {
    "text": ["apple", "Apple", "banana", "a%b", "it's", "", "Zoë", "plum pie"],
    "int": [0, 1, 2, 3, 5, 8, -4, 12],
    "real": [0.5, 1.0, 2.25, 3.75, -1.5],
    "digits": ["10", "9", "007", "31", "5"],
    "date": ["2019-03-01", "2020-12-31", "2021-01-15", "2021-07-04"],
    "ref": [1, 2, 3, 4],
}


def database(rng: random.Random) -> sqlite3.Connection:
    """A database in memory: each column has NULLs or none; keys are valid but may be missing."""
    con = sqlite3.connect(":memory:")
    for table, columns in TABLES.items():
        con.execute(f"CREATE TABLE {table} ({', '.join(f'{c} {t}' for c, t in columns.items())})")
        nullable = {c for c in columns if c != "id" and rng.random() < 0.35}
        for number in range(rng.choice([1, 3, 5, 8])):
            row = [number + 1 if c == "id" else _cell(rng, c, c in nullable) for c in columns]
            con.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    return con


def _cell(rng: random.Random, column: str, nullable: bool) -> object:
    return None if nullable and rng.random() < 0.3 else rng.choice(VALUES[KINDS[column]])


@dataclass
class Query:
    """Writes one random query; ``aliases`` maps the aliases in scope to their tables."""

    rng: random.Random
    aliases: dict[str, str] = field(default_factory=dict)
    depth: int = 0

    def one(self) -> str:
        """A whole query."""
        if self.rng.random() < 0.15:
            return self._set_operation()
        return self.select()

    def select(self) -> str:
        """One SELECT of any shape."""
        source = self._from()
        where = f" WHERE {self.condition(2)}" if self.rng.random() < 0.65 else ""
        shape = self.rng.random()
        if shape < 0.3:
            return f"SELECT {', '.join(self.aggregate() for _ in range(self.rng.randint(1, 2)))}{source}{where}"
        if shape < 0.55:
            return self._grouped(source, where)
        return self._rows(source, where)

    def _rows(self, source: str, where: str) -> str:
        items = [self.expression() for _ in range(self.rng.randint(1, 3))]
        if self.rng.random() < 0.25:
            return f"SELECT DISTINCT {', '.join(items)}{source}{where}"
        order = ""
        if self.rng.random() < 0.5:
            keys = [f"{self.column()}{self.rng.choice(['', ' DESC'])}"]
            keys += [f"{a}.{c}" for a, t in self.aliases.items() for c in TABLES[t]]  # no ties
            order = f" ORDER BY {', '.join(dict.fromkeys(keys))}"
            if self.rng.random() < 0.5:
                order += f" LIMIT {self.rng.randint(1, 4)}" + (" OFFSET 1" if self.rng.random() < 0.2 else "")
        return f"SELECT {', '.join(items)}{source}{where}{order}"

    def _grouped(self, source: str, where: str) -> str:
        keys = list(dict.fromkeys(self.column() for _ in range(self.rng.randint(1, 2))))
        items = keys + [self.aggregate() for _ in range(self.rng.randint(0, 2))]
        having = f" HAVING {self.aggregate()} {self._sign()} {self.rng.randint(0, 5)}" if self.rng.random() < 0.3 else ""
        order = ""
        if self.rng.random() < 0.4:
            order = f" ORDER BY {self.aggregate()} {self.rng.choice(['', 'DESC'])}, {', '.join(keys)}"
            order += f" LIMIT {self.rng.randint(1, 3)}" if self.rng.random() < 0.5 else ""
        return f"SELECT {', '.join(items)}{source}{where} GROUP BY {', '.join(keys)}{having}{order}"

    def _set_operation(self) -> str:
        kinds = self.rng.choice([["text"], ["int"], ["text", "int"], ["ref"]])
        word = self.rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        return f" {word} ".join(self._side(kinds) for _ in range(2))

    def _side(self, kinds: list[str]) -> str:
        side = Query(self.rng, depth=self.depth + 1)
        source = side._from()
        items = [side.column(k) for k in kinds]
        where = f" WHERE {side.condition(1)}" if self.rng.random() < 0.5 else ""
        return f"SELECT {', '.join(items)}{source}{where}"

    def _from(self) -> str:
        shape = self.rng.random()
        if shape < 0.5 or self.depth > 1:
            table = self.rng.choice(["shop", "item", "sale"])
            alias = f"{table[0]}{self.depth}"
            self.aliases = {alias: table}
            return f" FROM {table} AS {alias}"
        d = self.depth
        join = self.rng.choice(["JOIN", "JOIN", "LEFT JOIN"])
        options = [
            ({f"s{d}": "shop", f"i{d}": "item"}, f"shop AS s{d} {join} item AS i{d} ON s{d}.id = i{d}.shop_id"),
            ({f"i{d}": "item", f"a{d}": "sale"}, f"item AS i{d} {join} sale AS a{d} ON i{d}.id = a{d}.item_id"),
            ({f"i{d}": "item", f"a{d}": "sale"}, f"item AS i{d} {join} sale AS a{d} ON i{d}.shop_id = a{d}.shop_id"),
            ({f"s{d}": "shop", f"t{d}": "shop"}, f"shop AS s{d} JOIN shop AS t{d} ON s{d}.town = t{d}.town"),
            ({f"s{d}": "shop", f"i{d}": "item", f"a{d}": "sale"},
             f"shop AS s{d} JOIN item AS i{d} ON s{d}.id = i{d}.shop_id JOIN sale AS a{d} ON a{d}.item_id = i{d}.id"),
            ({f"s{d}": "shop", f"a{d}": "sale"}, f"shop AS s{d}, sale AS a{d}"),
        ]
        self.aliases, text = self.rng.choice(options)
        return f" FROM {text}"

    def column(self, *kinds: str) -> str:
        """A column in scope, of one of ``kinds`` if given."""
        found = [f"{a}.{c}" for a, t in self.aliases.items() for c in TABLES[t] if not kinds or KINDS[c] in kinds]
        if not found:
            found = [f"{a}.{c}" for a, t in self.aliases.items() for c in TABLES[t]]
        return self.rng.choice(found)

    def number(self) -> str:
        """A numeric column."""
        return self.column("int", "real", "ref", "key")

    def expression(self) -> str:
        """An output expression."""
        r = self.rng.random()
        if r < 0.6:
            return self.column()
        return self.rng.choice([
            lambda: f"{self.number()} {self.rng.choice('+-*')} {self.rng.randint(1, 3)}",
            lambda: f"{self.number()} / {self.rng.choice([2, 3, 2.0])}",
            lambda: f"{self.number()} / {self.number()}",
            lambda: f"length({self.column('text', 'digits')})",
            lambda: f"substr({self.column('text', 'digits', 'date')}, {self.rng.choice([1, 2, -2])}, 2)",
            lambda: f"abs({self.number()})",
            lambda: f"coalesce({self.column('int')}, 7)",
            lambda: f"{self.column('text', 'digits')} || '-' || {self.column('text', 'digits')}",
            lambda: f"CASE WHEN {self.condition(0)} THEN 1 ELSE 0 END",
            lambda: f"CASE WHEN {self.condition(0)} THEN {self.number()} WHEN {self.condition(0)} THEN 9 END",
            lambda: f"nullif({self.column('int')}, 2)",
            lambda: f"CAST({self.column('digits')} AS INTEGER)",
            lambda: f"CAST({self.column('int')} AS REAL) / 4",
        ])()

    def aggregate(self) -> str:
        """An aggregate."""
        return self.rng.choice([
            lambda: "count(*)",
            lambda: f"count({self.column()})",
            lambda: f"count(DISTINCT {self.column()})",
            lambda: f"sum({self.number()})",
            lambda: f"avg({self.number()})",
            lambda: f"min({self.column()})",
            lambda: f"max({self.column()})",
            lambda: f"sum({self.column('digits', 'int')})",
            lambda: f"sum(CASE WHEN {self.condition(0)} THEN 1 ELSE 0 END)",
            lambda: f"max({self.number()} * 2)",
        ])()

    def _sign(self) -> str:
        return self.rng.choice(["=", "<", ">", "<=", ">=", "!="])

    def condition(self, depth: int) -> str:
        """A condition, nested up to ``depth``."""
        r = self.rng.random()
        if depth and r < 0.3:
            word = self.rng.choice(["AND", "OR"])
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if depth and r < 0.37:
            return f"NOT ({self.condition(depth - 1)})"
        if self.depth < 2 and r < 0.47 and depth:
            return self._nested()
        return self._simple()

    def _simple(self) -> str:
        def constant(kind: str) -> str:
            value = self.rng.choice(VALUES[kind])
            return "'" + str(value).replace("'", "''") + "'" if isinstance(value, str) else str(value)

        pattern = self.rng.choice(["%an%", "A%", "%e", "a_p%", "plum pie", "%%", "_"])
        return self.rng.choice([
            lambda: f"{self.number()} {self._sign()} {self.rng.randint(-2, 8)}",
            lambda: f"{self.column('text')} {self._sign()} {constant('text')}",
            lambda: f"{self.column('digits')} {self._sign()} {self.rng.choice(['9', 10, 7])}",
            lambda: f"{self.column('date')} {self._sign()} '2020-06-01'",
            lambda: f"{self.number()} {self._sign()} {self.number()}",
            lambda: f"{self.column('text')} {self.rng.choice(['', 'NOT '])}LIKE '{pattern}'",
            lambda: f"{self.column()} IS {self.rng.choice(['', 'NOT '])}NULL",
            lambda: f"{self.number()} {self.rng.choice(['', 'NOT '])}BETWEEN 1 AND 5",
            lambda: f"{self.column('int', 'ref')} {self.rng.choice(['', 'NOT '])}IN (1, 2, 5)",
            lambda: f"{self.column('text')} {self.rng.choice(['', 'NOT '])}IN ('apple', 'banana')",
            lambda: f"{self.column('int')} = '{self.rng.choice([2, 5])}'",
        ])()

    def _nested(self) -> str:
        inner = Query(self.rng, depth=self.depth + 1)
        source = inner._from()
        where = f" WHERE {inner.condition(1)}" if self.rng.random() < 0.6 else ""
        kind = self.rng.choice(["text", "int", "ref"])
        mine, theirs = self.column(kind), inner.column(kind)
        link = f"{inner.column('ref', 'key')} = {self.column('ref', 'key')}"
        negated = self.rng.choice(["", "NOT "])
        also = f"{where} AND {link}" if where else f" WHERE {link}"
        return self.rng.choice([
            lambda: f"{mine} {negated}IN (SELECT {theirs}{source}{where})",
            lambda: f"{self.number()} {self._sign()} (SELECT {self._number_aggregate(inner)}{source}{where})",
            lambda: f"{negated}EXISTS (SELECT 1{source}{also})",
            lambda: f"{self.number()} {self._sign()} (SELECT {self._number_aggregate(inner)}{source}{also})",
        ])()

    def _number_aggregate(self, inner: Query) -> str:
        return self.rng.choice(["avg", "max", "min", "sum", "count"]) + f"({inner.number()})"
