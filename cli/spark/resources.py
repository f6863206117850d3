"""The interface through which a diagnosis uses Spark: a session of flowdiag's own, or the caller's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flowdiag.cli.spark import settings
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.engine.reading import Resources


class SparkProvider(ABC):
    """Provides a Spark session, which may still be starting.

    Attributes:
        cores: the number of parallel tasks.
        on_cluster: whether tasks run on other hosts.
    """

    cores: int
    on_cluster: bool

    @property
    @abstractmethod
    def folder(self) -> Path:
        """A private folder that `close` removes."""

    @abstractmethod
    def session(self) -> SparkSession:
        """Return the session; wait for it if necessary."""

    @abstractmethod
    def summary_lines(self) -> list[str]:
        """Describe the session, for `--verbose`."""

    @abstractmethod
    def environment_error(self, error: Exception) -> FlowdiagError | None:
        """Return the environment failure behind an exception, or None if the exception is a bug."""

    def tune(self, rows: int | None) -> None:
        """Apply the settings that depend on the number of rows to query next.

        Args:
            rows: the number of rows; None if unknown.
        """
        conf = self.session().conf
        for key, value in settings.by_size(rows, self.cores).items():
            if value is None:
                conf.unset(key)
            else:
                conf.set(key, value)

    @contextmanager
    def explain_failures(self) -> Iterator[None]:
        """Turn failures of the environment in the block into errors that name their cause.

        Raises:
            FlowdiagError: disk or memory is full, or Spark has stopped.
        """
        try:
            yield
        except FlowdiagError:
            raise
        except Exception as error:
            cause = self.environment_error(error)
            if cause is None:
                raise
            raise cause from error


def resources_for(spark: SparkProvider, summary: list[str] | None = None) -> Resources:
    """Return the resources that a diagnosis on this session may use.

    Args:
        spark: provides the session.
        summary: receives the description of the session, if given.
    """
    from flowdiag.analyses.engine import reading

    def tune(rows: int | None) -> None:
        spark.tune(rows)
        if summary is not None:
            summary[:] = spark.summary_lines()

    return reading.Resources(
        tune=tune,
        executors=spark.on_cluster,
        local_bytes=reading.DRIVER_BYTES if spark.on_cluster else reading.LOCAL_BYTES,
        processes=spark.cores,
        folder=spark.folder / "rows",
        explained=spark.environment_error,
    )


def reports_full_disk(text: str) -> bool:
    return "No space left on device" in text or "Disk quota exceeded" in text
