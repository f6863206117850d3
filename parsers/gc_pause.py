"""Pauses Python's garbage collector while many values are created and none is discarded.

Each collection scans all rows and facts. With tens of thousands it took as long as the work itself.
Rows and facts have no reference cycles, so a collection finds nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """Disable the collector within the block, and restore its state afterwards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
