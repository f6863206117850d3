"""Spark at the first moment of a command, and all that is set for the process while a command runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from flowdiag.cli.lean import without_unused
from flowdiag.cli.settings import Settings

if TYPE_CHECKING:
    from flowdiag.cli.session import SparkStarter

_SWITCH_S: Final = 0.0005
_YOUNG: Final = 50_000  # objects


@contextmanager
def spark_for(settings: Settings, paths: Sequence[str]) -> Iterator[SparkStarter]:
    """Begin to start Spark, for a `with` statement around all the rest of a command.

    Args:
        settings: of all layers.
        paths: as given: a cluster cannot read every one.

    Raises:
        FlowdiagError: the master or a path is refused.
    """
    from flowdiag.cli.session import SparkStarter, runs_here

    if settings.master is not None:
        from flowdiag.cli.cluster import check_inputs_of

        check_inputs_of(settings.master, paths)
    with ExitStack() as stack:
        stack.enter_context(in_a_hurry())
        if runs_here(settings.master):  # before the first import of pyarrow or pyspark
            stack.enter_context(without_unused())
        yield stack.enter_context(SparkStarter.begin(master=settings.master))


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Settings of the interpreter for a process whose second half waits for Java.

    - While Spark starts, one thread makes hundreds of calls to the JVM and another one imports and
      parses: with Python's own interval each answer waits up to 5 ms for the other thread.
    - What is imported and parsed stays, so that looking through it for garbage every 700 objects
      finds nothing. The threshold still bounds what cyclic garbage can take.
    """
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(min(interval, _SWITCH_S))
    gc.set_threshold(max(_YOUNG, thresholds[0]), *thresholds[1:])
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
