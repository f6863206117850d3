"""Spark at the first moment of a command, and all that is set for the process while a command runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from flowdiag.cli.options.settings import Settings, parse_heap, parse_stay
from flowdiag.cli.spark import tricks
from flowdiag.cli.spark.lean import without_unused
from flowdiag.cli.spark.tricks import Trick, used

if TYPE_CHECKING:
    from flowdiag.cli.spark.starter import SparkStarter


@contextmanager
def spark_for(settings: Settings, paths: Sequence[str]) -> Iterator[SparkStarter]:
    """Begin to start Spark, for a `with` statement around all the rest of a command.

    Args:
        settings: of all layers.
        paths: as given: a cluster cannot read every one.

    Raises:
        FlowdiagError: the master or a path is refused, or what shall be left out is unknown.
    """
    tricks.check()
    if settings.master is not None:
        from flowdiag.cli.spark.cluster import check_inputs_of

        check_inputs_of(settings.master, paths)
    with ExitStack() as stack:
        yield _begin(stack, settings)


def _begin(stack: ExitStack, settings: Settings) -> SparkStarter:
    from flowdiag.cli.spark.starter import SparkStarter, runs_here

    master, heap = settings.master, settings.java_heap

    # Before the first import of pyarrow or pyspark; to write tables takes Python tasks, and these pandas.
    if runs_here(master) and settings.data_dir is None and used(Trick.LEAN_IMPORTS):
        stack.enter_context(without_unused())
    heap_bytes = parse_heap(heap) if heap else None
    stay_s = parse_stay(settings.stay) if settings.stay else 0
    return stack.enter_context(
        SparkStarter.begin(
            master=master,
            heap_bytes=heap_bytes,
            join=not os.environ.get("CI") and settings.data_dir is None,
            stay_s=stay_s or None,
        )
    )
