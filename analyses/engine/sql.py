"""Queries as files: `sql/*.sql` of a room, each with a comment on top that says what a row is.

A query names in braces what it is filled with. Lists of events and the like are the same in every run
and known to the room's `Queries`; a piece of text that depends on the run, and the frames that are read,
are handed to `run`. The queries are SQL text, since building them from `Column` objects takes a call into
the JVM for every operator: six thousand of them, a good second of a run that should last three.
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
    """The queries of one room, read when they are first asked."""

    def __init__(self, package: str, fixed: Mapping[str, str]) -> None:
        """Read nothing yet.

        Args:
            package: that holds `sql/`.
            fixed: what stands for names in braces, in whichever query they occur.
        """
        self.package: Final = package
        self.fixed: Final = fixed
        self._texts: dict[str, str] = {}

    def text(self, name: str, **values: str) -> str:
        """A query without the comment on top, filled but for its frames.

        Args:
            name: of the file, without `.sql`.
            values: of this run, beside what is fixed.
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
        """Ask a query.

        Args:
            name: of the file, without `.sql`.
            args: for the `:names` of the query.
            values: frames that the query reads, at least one, and text of this run.
        """
        texts = {key: value for key, value in values.items() if isinstance(value, str)}
        frames: dict[str, Any] = {
            key: value for key, value in values.items() if not isinstance(value, str)
        }
        spark = next(iter(frames.values())).sparkSession
        query: DataFrame = spark.sql(self.text(name, **texts), args=args, **frames)
        return query


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in the place of their names in braces; other names stay.

    >>> fill("SELECT {what} FROM {events}", {"what": "count(*)"})
    'SELECT count(*) FROM {events}'
    """
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def words(*values: str) -> str:
    """A list of texts for SQL, without the parentheses.

    >>> words("metric", "split")
    "'metric', 'split'"
    """
    return ", ".join(f"'{value}'" for value in values)


def lines(parts: Iterable[str]) -> str:
    """Columns, one a line.

    >>> lines(["a", "b"])
    'a,\\n  b'
    """
    return ",\n  ".join(parts)
