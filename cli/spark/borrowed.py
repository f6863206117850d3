"""Uses the caller's Spark session: never stops it, and leaves its settings unchanged."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from flowdiag.cli.spark.resources import SparkProvider, reports_full_disk
from flowdiag.cli.spark.settings import is_remote
from flowdiag.parsers.cleanup import temporary_folder
from flowdiag.parsers.errors import FlowdiagError, error_text, is_disk_full, no_temporary_space

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# flowdiag's queries rely on these, independent of the caller's settings.
_REQUIRED_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


class BorrowedSpark(SparkProvider):
    """A session next to the caller's: the same Spark application, with separate settings and views.

    >>> with BorrowedSpark(spark) as borrowed:  # doctest: +SKIP
    ...     frame = borrowed.session().sql("SELECT 1")
    """

    def __init__(self, spark: SparkSession) -> None:
        """Use this session.

        Raises:
            FlowdiagError: the session is stopped, or uses Spark Connect, which has no JVM here.
        """
        check(spark)
        self._callers = spark
        self._stack = ExitStack()
        self._own: SparkSession | None = None
        self._folder: Path | None = None
        self._active: tuple[Any, Any] = (None, None)
        context = spark.sparkContext
        self.cores = context.defaultParallelism
        self.on_cluster = is_remote(context.master) or "local-cluster" in (context.master or "")

    @property
    def folder(self) -> Path:
        """A private folder that `close` removes."""
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary_folder("flowdiag-"))
        return self._folder

    def session(self) -> SparkSession:
        if self._own is None:
            self._active = _active_sessions(self._callers)
            self._own = self._callers.newSession()
            for key, value in _REQUIRED_SETTINGS.items():
                self._own.conf.set(key, value)
        return self._own

    def send_parsers(self) -> None:
        """Send the parsers to the executors. They remain until the caller's application ends."""
        from flowdiag.cli.spark.parsers_zip import write_parsers_zip
        from flowdiag.parsers.cleanup import private_folder

        # Executors that start later fetch the zip again, so it stays until this process ends.
        folder, _ = private_folder("flowdiag-parsers-")
        self._callers.sparkContext.addPyFile(str(write_parsers_zip(folder)))

    def summary_lines(self) -> list[str]:
        """Return no lines, because the caller knows the session."""
        return []

    def environment_error(self, error: Exception) -> FlowdiagError | None:
        if isinstance(error, OSError) and is_disk_full(error):
            return no_temporary_space(error)
        text = error_text(error)
        if reports_full_disk(text):
            return FlowdiagError(
                "no space is left for Spark's temporary files",
                hint="set spark.local.dir to a folder with more free space",
            )
        if "OutOfMemoryError" in text:
            return FlowdiagError(
                "Spark ran out of memory", hint="increase the driver's memory: spark.driver.memory"
            )
        is_stopped = self._callers.sparkContext._jsc is None
        if is_stopped or re.search(r"stopped SparkContext|Py4JNetworkError", text):
            return FlowdiagError("Spark was stopped before the diagnosis finished")
        return None

    def close(self) -> None:
        """Restore the active session. Data frames stay usable."""
        if self._own is not None:
            _activate(self._callers, *self._active)
            self._own = None
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check(spark: SparkSession) -> None:
    """Check that flowdiag can use the session.

    Raises:
        FlowdiagError: it is not a session, is stopped, or uses Spark Connect.
    """
    from pyspark.sql import SparkSession

    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise FlowdiagError(
            "this is a Spark Connect session, which has no JVM in this process",
            hint="pass a classic SparkSession, or none: flowdiag then starts its own Spark",
        )
    if not isinstance(spark, SparkSession):
        raise FlowdiagError(f"spark is a {type(spark).__name__}, not a SparkSession")
    if spark.sparkContext._jsc is None:
        raise FlowdiagError(
            "the SparkSession is stopped", hint="create a new session, or pass none"
        )


def check_python(spark: SparkSession) -> None:
    """Check that the Python processes of a local Spark can import flowdiag.

    Raises:
        FlowdiagError: they use a different Python without flowdiag.
    """
    python = shutil.which(spark.sparkContext.pythonExec)
    if is_remote(spark.sparkContext.master) or python is None:
        return
    if Path(python).parent == Path(sys.executable).parent:
        return
    probe = subprocess.run(
        [python, "-P", "-c", "import flowdiag.parsers.on_spark.data_source"],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        raise FlowdiagError(
            f"Spark's Python processes use {python}, which cannot import flowdiag",
            hint=f"set PYSPARK_PYTHON={sys.executable} before you create the session",
        )


def running() -> SparkSession | None:
    """Return the current session of this process, or None if there is none."""
    context: Any = sys.modules.get("pyspark.core.context")
    if context is None or context.SparkContext._active_spark_context is None:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return session if isinstance(session, SparkSession) else None


def _session_classes(spark: SparkSession) -> tuple[Any, Any]:
    """Return the `SparkSession` classes of Python and Java."""
    from pyspark.sql import SparkSession

    return SparkSession, SparkSession._get_j_spark_session_class(spark._jvm)


def _active_sessions(spark: SparkSession) -> tuple[Any, Any]:
    """Return the active sessions of Python and Java; `createDataFrame` replaces both."""
    python_class, java_class = _session_classes(spark)
    active = java_class.getActiveSession()
    return python_class._activeSession, active.get() if active.isDefined() else None


def _activate(spark: SparkSession, python_session: Any, java_session: Any) -> None:
    if spark.sparkContext._jsc is None:
        return
    python_class, java_class = _session_classes(spark)
    python_class._activeSession = python_session
    if java_session is None:
        java_class.clearActiveSession()
    else:
        java_class.setActiveSession(java_session)
