"""Columns of tables that other programs read: their types, and what they say."""

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
"""What a topic has for tables: the name of each, and its rows, made one by one."""


class Keeper(Protocol):
    """What a diagnosis gives its tables to (`report.data_dir`)."""

    def frame(self, name: str, frame: DataFrame, part: str) -> None:
        """Keep the rows of a frame; `part` tells its files from those of another frame."""

    def rows(self, name: str, rows: Iterator[Row]) -> None:
        """Keep rows, which are made one by one."""


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
        name: of the column.
        type: of its values in Arrow and Parquet.
        about: what it says, for documents: one clause.
        nullable: whether a row may lack it.
    """

    name: str
    type: pa.DataType
    about: str
    nullable: bool = True


def schema_of(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of a table."""
    return pa.schema([pa.field(each.name, each.type, each.nullable) for each in columns])


def columns_of(
    row: type[msgspec.Struct], about: Mapping[str, str], without: Iterable[str] = ()
) -> Iterator[Column]:
    """The columns of a wire type, one for each field that is no list.

    Args:
        row: the type.
        about: what each field says.
        without: fields that become no columns.

    Raises:
        KeyError: a field that `about` does not have.
    """
    for name, hint in get_type_hints(row).items():
        if name not in without:
            kind, nullable = _type_of(hint)
            # Reports carry instants as text.
            is_instant = name.endswith(("_at", "_seen")) or name == "watermark"
            yield Column(name, INSTANT if is_instant else kind, about[name], nullable=nullable)


def _type_of(hint: Any) -> tuple[pa.DataType, bool]:
    """The Arrow type of a field, and whether it may be null."""
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
