"""Describes the columns of the tables that other programs read."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, Union, get_args, get_origin, get_type_hints

import msgspec
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = Mapping[str, Any]
Rows = Iterable[tuple[str, Iterator[Row]]]
"""The tables of a topic: the name and the rows of each, as an iterator."""


class Keeper(Protocol):
    """Receives the tables of a diagnosis (`report.data_dir`)."""

    def frame(self, name: str, frame: DataFrame, part: str) -> None:
        """Write the rows of a frame. `part` distinguishes its files from those of other frames."""

    def rows(self, name: str, rows: Iterator[Row]) -> None:
        """Write rows from an iterator."""


INSTANT: Final = pa.timestamp("us", "UTC")

_SIMPLE: Final[dict[Any, pa.DataType]] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Args:
        name: the column's name.
        type: the type of its values in Arrow and Parquet.
        about: its description for the docs, as one clause.
        nullable: whether a row may have no value.
    """

    name: str
    type: pa.DataType
    about: str
    nullable: bool = True


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema([pa.field(each.name, each.type, each.nullable) for each in columns])


def columns_of(
    row: type[msgspec.Struct], about: Mapping[str, str], without: Iterable[str] = ()
) -> Iterator[Column]:
    """Yield a column for each field of a wire type that is not a list.

    Args:
        row: the type.
        about: description of each field.
        without: fields to leave out.

    Raises:
        KeyError: `about` has no description of a field.
    """
    for name, hint in get_type_hints(row).items():
        if name not in without:
            kind, nullable = _type_of(hint)
            # Reports contain instants as text.
            is_instant = name.endswith(("_at", "_seen")) or name == "watermark"
            yield Column(name, INSTANT if is_instant else kind, about[name], nullable=nullable)


def _type_of(hint: Any) -> tuple[pa.DataType, bool]:
    """Return the Arrow type of a field and whether it may be null."""
    nullable = False
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
        nullable = True
    if get_origin(hint) is dict:
        key, value = get_args(hint)
        return pa.map_(_SIMPLE[key], _SIMPLE[value]), nullable
    if isinstance(hint, type) and issubclass(hint, Enum):
        return pa.string(), nullable
    return _SIMPLE[hint], nullable
