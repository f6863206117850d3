"""Loads and runs queries from files (`sql/*.sql` of a package), which begin with a comment that describes a row.

A query contains placeholders in braces. The package's `Queries` fill in values that are the same in every run, such as
lists of events. `run` receives the frames and the text of the current run. The queries are SQL text, because `Column`
objects need a call into the JVM per operator. Six thousand calls took over a second of a run that should take three.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = re.compile(r"\{(\w+)\}")
_HEAD: Final = re.compile(r"\A(?:--[^\n]*\n)+")
_COMMENT: Final = re.compile(r"--[^\n]*")
_TOKEN: Final = re.compile(r"'[^']*'|[(),]|\b(?:SELECT|FROM)\b")


@dataclass(frozen=True, slots=True)
class Part:
    """A query that Spark has not received yet, with the frames that its braces name."""

    text: str
    frames: Mapping[str, DataFrame]

    def frame(self) -> DataFrame:
        """Run the query on its own."""
        return union_all([self])


class Queries:
    """The queries of one package, loaded on first use."""

    def __init__(self, package: str, fixed: Mapping[str, str]) -> None:
        """Remember the package. Its files are read on first use.

        Args:
            package: the package that contains `sql/`.
            fixed: values of placeholders in all its queries.
        """
        self.package: Final = package
        self.fixed: Final = fixed
        self._texts: dict[str, str] = {}

    def text(self, name: str, **values: str) -> str:
        """Return a query without its comment, with all placeholders filled except frames.

        Args:
            name: name of the file, without `.sql`.
            values: values of this run, in addition to the fixed ones.
        """
        text = self._texts.get(name)
        if text is None:
            data = pkgutil.get_data(self.package, f"sql/{name}.sql")
            assert data is not None
            text = self._texts[name] = fill(_HEAD.sub("", data.decode()), self.fixed)
        return fill(text, values) if values else text

    def part(self, name: str, **values: DataFrame | str) -> Part:
        """Return a query for `union_all`; takes the same arguments as `run`."""
        texts, frames = _separate(values)
        return Part(self.text(name, **texts), frames)

    def run(
        self, name: str, args: dict[str, Any] | None = None, /, **values: DataFrame | str
    ) -> DataFrame:
        """Run a query.

        Args:
            name: name of the file, without `.sql`.
            args: values for the `:names` of the query.
            values: the frames that the query reads, at least one, and the text of this run.
        """
        texts, frames = _separate(values)
        spark = next(iter(frames.values())).sparkSession
        query: DataFrame = spark.sql(self.text(name, **texts), args=args, **frames)
        return query


def _separate(values: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, DataFrame]]:
    """Split the values into those that are text and those that are frames."""
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    return texts, {key: value for key, value in values.items() if key not in texts}


def union_all(parts: Sequence[Part]) -> DataFrame:
    """Return the rows of several queries. Columns that a query lacks are null.

    All queries form one statement, because Spark analyzes every statement separately, and the whole plan again for each
    `unionByName`. That took longer than running a small diagnosis.
    """
    columns = [columns_of(part.text) for part in parts]
    names = [*dict.fromkeys(chain.from_iterable(columns))]
    frames: dict[str, Any] = {}
    texts = []
    for part, own in zip(parts, columns, strict=True):
        places = {}
        for name, frame in part.frames.items():
            known = (key for key, other in frames.items() if other is frame)
            key = next(known, f"frame_{len(frames)}")
            frames[key] = frame
            places[name] = f"{{{key}}}"
        selected = ", ".join(f"`{name}`" if name in own else f"NULL AS `{name}`" for name in names)
        texts.append(f"SELECT {selected} FROM (\n{fill(part.text, places)}\n)")
    spark = next(iter(frames.values())).sparkSession
    query: DataFrame = spark.sql("\nUNION ALL\n".join(texts), **frames)
    return query


def columns_of(text: str) -> list[str]:
    """Return the names of a query's columns.

    >>> columns_of("WITH t AS (SELECT x FROM u) SELECT 'a, b' AS what, t.x, max(y, 2) AS z FROM t")
    ['what', 'x', 'z']
    """
    text = _COMMENT.sub("", text)
    depth, edges, complete = 0, [0], True
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "()":
            depth += 1 if word == "(" else -1
        elif depth == 0 and word == "SELECT":
            edges, complete = [token.end()], False
        elif depth == 0 and not complete and word in (",", "FROM"):
            edges.append(token.start())
            complete = word == "FROM"
    items = (text[begin:end] for begin, end in pairwise(edges))
    return [item.rsplit(None, 1)[-1].rpartition(".")[2].lstrip(",") for item in items]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace placeholders in braces; unknown names stay as they are.

    >>> fill("SELECT {what} FROM {events}", {"what": "count(*)"})
    'SELECT count(*) FROM {events}'
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def sql_literals(*values: str) -> str:
    """Return a list of SQL string literals, without parentheses.

    >>> sql_literals("metric", "split")
    "'metric', 'split'"
    """
    return ", ".join(f"'{value}'" for value in values)


def join_columns(parts: Iterable[str]) -> str:
    """Join SQL columns, one per line.

    >>> join_columns(["a", "b"])
    'a,\\n  b'
    """
    return ",\n  ".join(parts)
