"""A Spark session of the user's own: it is used, never stopped, and its settings stay as they are."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from flowdiag.cli.spark import settings
from flowdiag.cli.spark.cluster import is_remote
from flowdiag.parsers.cleanup import temporary_folder
from flowdiag.parsers.errors import FlowdiagError, error_text, is_disk_full, no_temporary_space

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What our queries rely on, whatever the application of the user has chosen.
_WANTED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}


class BorrowedSpark:
    """A session beside the user's: the same Spark, with settings and views of its own.

    >>> with BorrowedSpark(spark) as borrowed:  # doctest: +SKIP
    ...     frame = borrowed.session().sql("SELECT 1")
    """

    def __init__(self, spark: SparkSession) -> None:
        """Take a session.

        Raises:
            FlowdiagError: it is stopped, or one of Spark Connect, which has no JVM here.
        """
        check(spark)
        self._users = spark
        self._stack = ExitStack()
        self._own: SparkSession | None = None
        self._folder: Path | None = None
        self._active: tuple[Any, Any] = (None, None)
        context = spark.sparkContext
        self.cores = context.defaultParallelism
        self.on_cluster = is_remote(context.master) or "local-cluster" in (context.master or "")

    @property
    def folder(self) -> Path:
        """A private folder; what lies in it is gone after `close`."""
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary_folder("flowdiag-"))
        return self._folder

    def session(self) -> SparkSession:
        """The session beside the user's."""
        if self._own is None:
            self._active = _active(self._users)
            self._own = self._users.newSession()
            for key, value in _WANTED.items():
                self._own.conf.set(key, value)
        return self._own

    def send_parsers(self) -> None:
        """Send executors what they parse with, for as long as the user's application lasts."""
        from flowdiag.cli.spark.parcel import pack_parsers
        from flowdiag.parsers.cleanup import private_folder

        # An executor that comes later asks for it then: it stays as long as this process does.
        folder, _ = private_folder("flowdiag-parsers-")
        self._users.sparkContext.addPyFile(str(pack_parsers(folder)))

    def tune(self, rows: int | None) -> None:
        """Set what depends on the size of what is queried next, for the session beside the user's."""
        conf = self.session().conf
        for key, value in settings.by_size(rows, self.cores).items():
            if value is None:
                conf.unset(key)
            else:
                conf.set(key, value)

    def described(self) -> list[str]:
        """Nothing: the user knows his Spark."""
        return []

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Tell of what fails in the block why, where the machine is to blame and no bug.

        Raises:
            FlowdiagError: there is no room or no memory, or Spark was stopped meanwhile.
        """
        try:
            yield
        except FlowdiagError:
            raise
        except Exception as error:
            told = self.explained(error)
            if told is None:
                raise
            raise told from error

    def explained(self, error: Exception) -> FlowdiagError | None:
        """What a failure comes down to where the machine is to blame; None: it must be a bug."""
        if isinstance(error, OSError) and is_disk_full(error):
            return no_temporary_space(error)
        return _why(self._users, error_text(error))

    def close(self) -> None:
        """Leave everything as it was; frames that were made stay usable."""
        if self._own is not None:
            _activate(self._users, *self._active)
            self._own = None
        self._stack.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close, whatever happened."""
        self.close()


def check(spark: SparkSession) -> None:
    """Refuse what is no session that can be used.

    Raises:
        FlowdiagError: it is none, is stopped, or is one of Spark Connect.
    """
    from pyspark.sql import SparkSession

    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise FlowdiagError(
            "this is a session of Spark Connect, which has no Spark in this process",
            hint="pass a classic SparkSession, or none: flowdiag starts a Spark of its own",
        )
    if not isinstance(spark, SparkSession):
        raise FlowdiagError(f"spark is a {type(spark).__name__}, and not a SparkSession")
    if spark.sparkContext._jsc is None:
        raise FlowdiagError("the SparkSession is stopped", hint="make a new one, or pass none")


def check_python(spark: SparkSession) -> None:
    """Refuse a Spark on this machine whose Python processes cannot import flowdiag.

    Raises:
        FlowdiagError: they are another Python's.
    """
    python = shutil.which(spark.sparkContext.pythonExec)
    if is_remote(spark.sparkContext.master) or python is None:
        return
    if Path(python).parent == Path(sys.executable).parent:
        return
    probe = subprocess.run(
        [python, "-P", "-c", "import flowdiag.parsers.spark.data_source"],
        capture_output=True,
        check=False,
    )
    if probe.returncode:
        raise FlowdiagError(
            f"Spark's Python processes are those of {python}, which cannot import flowdiag",
            hint=f"set PYSPARK_PYTHON={sys.executable} before the session is made",
        )


def running() -> SparkSession | None:
    """The session that this process has already; None: there is none."""
    context: Any = sys.modules.get("pyspark.core.context")
    if context is None or context.SparkContext._active_spark_context is None:
        return None
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return session if isinstance(session, SparkSession) else None


def _classes(spark: SparkSession) -> tuple[Any, Any]:
    from pyspark.sql import SparkSession

    return SparkSession, SparkSession._get_j_spark_session_class(spark._jvm)


def _active(spark: SparkSession) -> tuple[Any, Any]:
    """The active session as Python and as Java know it: `createDataFrame` makes its own the active one."""
    ours, theirs = _classes(spark)
    active = theirs.getActiveSession()
    return ours._activeSession, active.get() if active.isDefined() else None


def _activate(spark: SparkSession, python: Any, java: Any) -> None:
    if spark.sparkContext._jsc is None:
        return
    ours, theirs = _classes(spark)
    ours._activeSession = python
    if java is None:
        theirs.clearActiveSession()
    else:
        theirs.setActiveSession(java)


def _why(spark: SparkSession, told: str) -> FlowdiagError | None:
    """What a failure comes down to, where it is the machine's or the user's Spark."""
    if "No space left on device" in told or "Disk quota exceeded" in told:
        return FlowdiagError(
            "no space is left for Spark's temporary files",
            hint="set spark.local.dir to a folder with more room",
        )
    if "OutOfMemoryError" in told:
        return FlowdiagError(
            "Spark ran out of memory", hint="give the driver more: spark.driver.memory"
        )
    if spark.sparkContext._jsc is None or re.search(r"stopped SparkContext|Py4JNetworkError", told):
        return FlowdiagError("Spark was stopped before the diagnosis was done")
    return None
