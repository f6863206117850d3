"""Keeps optional libraries that flowdiag never uses out of the process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_UNUSED: Final = frozenset({"numpy", "pandas", "pyarrow.dataset"})


class _FilteringFinder:
    """Wraps an import finder and reports the unused libraries as missing."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in _UNUSED:
            return None
        spec: ModuleSpec | None = self.finder.find_spec(name, path, target)
        return spec

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)


@contextmanager
def unused_imports_blocked() -> Iterator[None]:
    """Block imports of NumPy, pandas and PyArrow's datasets within a `with` statement, unless they are already loaded.

    PyArrow and PySpark import an installed NumPy and pandas only to check whether a value is one of theirs.
    That costs half a second of CPU time, and NumPy's threads, in a run that should take three seconds.
    `Table.group_by` imports datasets, with file systems of every cloud. PyArrow and PySpark work without
    these libraries (PyArrow can also be built without datasets). They do not retry a failed import in this
    process, so this function is for commands, not for libraries. Child processes are not affected.

    Callers see the libraries as not installed. PySpark calls `importlib.util.find_spec`, so no finder may
    raise. PyArrow's compiled parts accept a `None` in `sys.modules`, which means "do not import".
    """
    sys.meta_path[:] = [_FilteringFinder(finder) for finder in sys.meta_path]
    try:
        yield
    finally:
        sys.meta_path[:] = [
            finder.finder if isinstance(finder, _FilteringFinder) else finder
            for finder in sys.meta_path
        ]
