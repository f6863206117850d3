"""With what a diagnosis reads and measures, by the Spark that it runs on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from flowdiag.analyses.engine.reading import Resources
    from flowdiag.parsers.errors import FlowdiagError


class Running(Protocol):
    """A Spark session on its way, or somebody else's."""

    @property
    def cores(self) -> int:
        """Tasks at once."""

    @property
    def folder(self) -> Path:
        """A private folder, gone afterwards."""

    @property
    def on_cluster(self) -> bool:
        """Whether its tasks run on other machines."""

    def tune(self, rows: int | None) -> None:
        """Set what depends on the size of what is queried next."""

    def described(self) -> list[str]:
        """What is set, for people."""

    def explained(self, error: Exception) -> FlowdiagError | None:
        """What a failure comes down to where the machine is to blame; None: it must be a bug."""


def resources_of(spark: Running, told: list[str] | None = None) -> Resources:
    """With what a diagnosis reads and measures.

    Args:
        spark: on its way.
        told: filled with what was set, if somebody asked for it.
    """
    from flowdiag.analyses.engine import reading

    def tune(rows: int | None) -> None:
        spark.tune(rows)
        if told is not None:
            told[:] = spark.described()

    return reading.Resources(
        tune=tune,
        executors=spark.on_cluster,
        here_bytes=reading.DRIVER_BYTES if spark.on_cluster else reading.HERE_BYTES,
        processes=spark.cores,
        folder=spark.folder / "rows",
        explained=spark.explained,
    )
