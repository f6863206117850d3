"""Spark at the first moment of a command, before the half second of imports that diagnosing takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flowdiag.cli.settings import Settings

if TYPE_CHECKING:
    from flowdiag.cli.session import SparkStarter


def spark_for(settings: Settings, paths: Sequence[str]) -> SparkStarter:
    """Begin to start Spark; to be used in a `with` statement around all the rest of a command.

    Args:
        settings: of all layers.
        paths: as given: a cluster cannot read every one.

    Raises:
        FlowdiagError: the master or a path is refused.
    """
    from flowdiag.cli.session import SparkStarter

    if settings.master is not None:
        from flowdiag.cli.cluster import check_inputs_of

        check_inputs_of(settings.master, paths)
    return SparkStarter.begin(master=settings.master)
