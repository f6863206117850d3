"""Keeping a library out of the process that is only looked for, never used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_UNUSED: Final = "pandas"


class _NotHere(MetaPathFinder):
    """Says of pandas that it is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _UNUSED:
            raise ModuleNotFoundError(f"No module named '{fullname}'", name=fullname)
        return None


@contextmanager
def without_pandas() -> Iterator[None]:
    """Keep pandas out while the block runs, unless it is there already.

    PyArrow and PySpark import it, if it is installed, only to ask whether a value is one of its own:
    a third of a second for nothing in a run that should take three. Where PyArrow has looked for it
    in vain it does not look again in this process, so this is for commands, not for libraries.
    """
    if _UNUSED in sys.modules:
        yield
        return
    finder = _NotHere()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
