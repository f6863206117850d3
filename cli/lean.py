"""Keeping libraries out of the process that are only looked for, never used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_UNUSED: Final = ("numpy", "pandas", "pyarrow.dataset")


@contextmanager
def without_unused() -> Iterator[None]:
    """Keep NumPy, pandas and PyArrow's datasets out while the block runs, unless they are there already.

    PyArrow and PySpark import the first two, where they are installed, only to ask whether a value is
    one of theirs: half a second of processor time, and NumPy's threads, in a run that should take
    three. Datasets, with file systems of every cloud, come with `Table.group_by`. Both libraries can
    do without (PyArrow is also built without datasets); what they have looked for in vain they do
    not look for again in this process, so this is for commands, not for libraries. Processes that
    Spark starts are not concerned.

    `None` in `sys.modules` is Python's own way of saying that a module must not be imported:
    `import` raises ModuleNotFoundError, `importlib.util.find_spec` returns None.
    """
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in _UNUSED if name not in modules]
    modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            if name in modules and modules[name] is None:
                del modules[name]
