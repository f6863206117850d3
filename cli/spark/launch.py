"""Starts Spark at the beginning of a command, with all process-wide settings that a command needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from flowdiag.cli.settings import Settings, parse_heap, parse_stay
from flowdiag.cli.spark import optimizations
from flowdiag.cli.spark.lean_imports import unused_imports_blocked

if TYPE_CHECKING:
    from flowdiag.cli.spark.starter import SparkStarter


@contextmanager
def start_spark(settings: Settings, paths: Sequence[str]) -> Iterator[SparkStarter]:
    """Start Spark in the background, for a `with` statement around the rest of a command.

    Args:
        settings: the merged settings of all layers.
        paths: the paths from the command line; a cluster cannot read local paths.

    Raises:
        FlowdiagError: the master, a path or a name in `FLOWDIAG_WITHOUT` is not valid.
    """
    optimizations.check_names()
    if settings.master is not None:
        from flowdiag.cli.spark.cluster import check_paths

        check_paths(settings.master, paths)
    from flowdiag.cli.spark.starter import SparkStarter, runs_locally

    writes_tables = settings.data_dir is not None  # by Python tasks, which need pandas
    heap, stay = settings.java_heap, settings.stay
    with ExitStack() as stack:
        # Must precede the first import of pyarrow or pyspark.
        if (
            runs_locally(settings.master)
            and not writes_tables
            and optimizations.is_enabled(optimizations.Optimization.LEAN_IMPORTS)
        ):
            stack.enter_context(unused_imports_blocked())
        yield stack.enter_context(
            SparkStarter.begin(
                master=settings.master,
                heap_bytes=parse_heap(heap) if heap else None,
                join=not os.environ.get("CI") and not writes_tables,
                stay_s=(parse_stay(stay) or None) if stay else None,
            )
        )
