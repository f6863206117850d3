"""Queries as files: `sql/*.sql` of a package, each with a comment on top that describes a row.

A query contains placeholders in braces. The package's `Queries` fill in values that are the same in every
run, such as lists of events. `run` receives the frames and the text of the current run. The queries are
SQL text, because `Column` objects take a call into the JVM per operator. Six thousand calls took over a
second of a run that should last three.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE: Final = re.compile(r"\{(\w+)\}")
_HEAD: Final = re.compile(r"\A(?:--[^\n]*\n)+")


class Queries:
    """The queries of one package, read at their first use."""

    def __init__(self, package: str, fixed: Mapping[str, str]) -> None:
        """Store the package; files are read later.

        Args:
            package: contains `sql/`.
            fixed: values of placeholders in all its queries.
        """
        self.package: Final = package
        self.fixed: Final = fixed
        self._texts: dict[str, str] = {}

    def text(self, name: str, **values: str) -> str:
        """Return a query without its comment, with all placeholders filled except frames.

        Args:
            name: of the file, without `.sql`.
            values: of this run, in addition to the fixed ones.
        """
        text = self._texts.get(name)
        if text is None:
            data = pkgutil.get_data(self.package, f"sql/{name}.sql")
            assert data is not None
            text = self._texts[name] = fill(_HEAD.sub("", data.decode()), self.fixed)
        return fill(text, values) if values else text

    def run(
        self, name: str, args: dict[str, Any] | None = None, /, **values: DataFrame | str
    ) -> DataFrame:
        """Run a query.

        Args:
            name: of the file, without `.sql`.
            args: for the `:names` of the query.
            values: the frames that the query reads, at least one, and text of this run.
        """
        texts = {key: value for key, value in values.items() if isinstance(value, str)}
        frames: dict[str, Any] = {
            key: value for key, value in values.items() if not isinstance(value, str)
        }
        spark = next(iter(frames.values())).sparkSession
        query: DataFrame = spark.sql(self.text(name, **texts), args=args, **frames)
        return query


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace placeholders in braces; unknown names stay.

    >>> fill("SELECT {what} FROM {events}", {"what": "count(*)"})
    'SELECT count(*) FROM {events}'
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def words(*values: str) -> str:
    """Return a list of SQL string literals, without parentheses.

    >>> words("metric", "split")
    "'metric', 'split'"
    """
    return ", ".join(f"'{value}'" for value in values)


def lines(parts: Iterable[str]) -> str:
    """Join columns, one per line.

    >>> lines(["a", "b"])
    'a,\\n  b'
    """
    return ",\n  ".join(parts)
