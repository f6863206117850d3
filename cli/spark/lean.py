"""Keeping libraries out of the process that are only looked for, never used."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_UNUSED: Final = frozenset({"numpy", "pandas", "pyarrow.dataset"})


class _Without:
    """One of Python's finders of modules, for which what is unused is not installed."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in _UNUSED:
            return None
        found: ModuleSpec | None = self.finder.find_spec(name, path, target)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


@contextmanager
def without_unused() -> Iterator[None]:
    """Keep NumPy, pandas and PyArrow's datasets out while the block runs, unless they are there already.

    PyArrow and PySpark import the first two, where they are installed, only to ask whether a value is
    one of theirs: half a second of processor time, and NumPy's threads, in a run that should take
    three. Datasets, with file systems of every cloud, come with `Table.group_by`. Both libraries can
    do without (PyArrow is also built without datasets); what they have looked for in vain they do
    not look for again in this process, so this is for commands, not for libraries. Processes that
    are started meanwhile are not concerned.

    Everybody gets the answer that he would get if they were not installed: PySpark asks
    `importlib.util.find_spec`, so that none of the finders may raise; PyArrow's compiled parts take
    the `None` for a module that means "not to be imported" in `sys.modules`.
    """
    sys.meta_path[:] = [_Without(finder) for finder in sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path[:] = [
            finder.finder if isinstance(finder, _Without) else finder for finder in sys.meta_path
        ]
