"""Starts the JVM directly, with one fixed set of flags, without Spark's scripts and launcher.

Spark's own shell script starts a JVM just to print the command line of another. The fixed set of flags
allows all runs to share one class-data archive (`flowdiag.cli.spark.warm`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Final, Literal

from flowdiag.cli.spark.archive import Archive, archive_for
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.optimizations import Optimization, is_enabled
from flowdiag.parsers.cleanup import at_exit, kill_now, signals_deferred
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.machine import memory_bytes

START_TIMEOUT_S: Final = 180.0
"""Maximum time until the JVM responds. A loaded host needs up to 30 s."""

_OUTPUT_LIMIT: Final = 64 * 1024  # characters of the JVM's output to keep
_GATEWAY: Final = "org.apache.spark.api.python.PythonGatewayServer"
# Messages of Java 17 to 25 that reject an archive. Other warnings of the same JVM component are harmless.
ARCHIVE_REJECTED: Final = re.compile(
    r"^\[[\d.]+s\]\[(?:warning|error)\s*\]\[(?:cds|aot)[^\]]*\].*(?:mismatch|not the one used"
    r"|different (?:version|build)|[Uu]nable to (?:use|map|read|open)|corrupt|bad magic"
    r"|[Vv]alidat|has changed|been modified|does not (?:exist|match)|[Ee]rror has occurred)"
)

# Spark's own list (JavaModuleOptions), without jdk.incubator.vector: some runtimes lack it, and only MLlib
# uses it. An older Java ignores options that it does not support.
_OPENED_PACKAGES: Final = (
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

FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--sun-misc-unsafe-memory-access=allow",  # Arrow, from Java 24 on
    "--enable-native-access=ALL-UNNAMED",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "-Dio.netty.tryReflectionSetAccessible=true",
    # Otherwise only the thread that ran out of memory ends, and threads that wait for it hang.
    "-XX:+ExitOnOutOfMemoryError",
    "-Xss4m",  # Catalyst recurses over expressions
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # a short-lived JVM never uses the second compiler's code
    # With one compiler, Java reserves 48 MB for code, and runs full collections to stay below.
    "-XX:ReservedCodeCacheSize=200m",
    "-XX:-UsePerfData",  # no files in the shared temporary folder
    "-Dfile.encoding=UTF-8",
    "-Duser.language=en",
    "-Dlog4j2.disableJmx=true",
    "-Dlog4j.shutdownHookEnabled=false",
)

_TRICK_OF_FLAG: Final[Mapping[str, Optimization]] = {
    "-XX:+UseSerialGC": Optimization.SERIAL_COLLECTOR,
    "-XX:TieredStopAtLevel=1": Optimization.FIRST_COMPILER,
    "-XX:ReservedCodeCacheSize=200m": Optimization.CODE_CACHE,
}

_UNUSED_JARS: Final = (
    # other parts of Spark, and their dependencies
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

# Variables of the user's own Spark or Java setup that would break a local session.
FOREIGN_VARIABLES: Final = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_HOME",  # also makes workers compile pyspark from a zip on every start
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

# Spark treats the gateway as a shell, and lowers its log level unless the level is set.
_LOG4J2: Final = {
    "rootLogger.level": "error",
    "logger.shell.name": "org.apache.spark.api.python.PythonGatewayServer",
    "logger.shell.level": "error",
    "rootLogger.appenderRef.stderr.ref": "stderr",
    "appender.stderr.type": "Console",
    "appender.stderr.name": "stderr",
    "appender.stderr.target": "SYSTEM_ERR",
    "appender.stderr.layout.type": "PatternLayout",
    "appender.stderr.layout.pattern": "%p %c{1}: %m%n%ex",
}


# Spark only logs an error of this kind that it catches. The JVM's last line is
# `Terminating due to java.lang.OutOfMemoryError: Java heap space`. A Java that writes a cache prints its
# command line, which contains the flag `ExitOnOutOfMemoryError`.
OUT_OF_MEMORY: Final = re.compile(
    r"(?<!ExitOn)OutOfMemoryError|Could not reserve enough space|There is insufficient memory for the Java"
)
_DEAD_THREAD: Final = re.compile(
    r'Exception in thread "(?:dag-scheduler-event-loop|task-result-getter|dispatcher-)'
    r"|Uncaught (?:exception|error) in thread (?:dag-scheduler-event-loop|task-result-getter|dispatcher-)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Jvm:
    """A JVM that serves pyspark's calls. It keeps the last output lines of the JVM and its workers.

    Attributes:
        folder: a private folder, which serves as working directory and receives the port number.
        heap_bytes: the maximum heap size.
        grace_s: how long the JVM may take to exit on request, before a signal to flowdiag kills it.
    """

    folder: Path
    heap_bytes: int = field(default_factory=lambda: default_heap_bytes())
    grace_s: float = 0
    process: subprocess.Popen[bytes] | None = None
    _unregister: Callable[[], object] | None = None
    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=400))
    _failure: Literal["memory", "thread"] | None = None
    _killed: bool = False

    def start(self, java: Java, properties: Mapping[str, str], flags: Sequence[str]) -> None:
        """Spawn the JVM and return at once.

        Args:
            java: the runtime.
            properties: system properties, which include Spark's settings.
            flags: flags in addition to the fixed ones.

        Raises:
            OSError: the process cannot be started.
            FlowdiagError: pyspark is not installed.
        """
        log4j2 = "".join(f"{key} = {value}\n" for key, value in _LOG4J2.items())
        (self.folder / "log4j2.properties").write_text(log4j2)
        environ = {
            name: value for name, value in os.environ.items() if name not in FOREIGN_VARIABLES
        }
        environ["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self.folder / "gateway")
        environ["SPARK_CONNECT_MODE"] = "0"
        # Otherwise Spark resolves the host's own name, which fails in a container without a network.
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        properties = {
            "java.io.tmpdir": str(self.folder),
            "log4j2.configurationFile": str(self.folder / "log4j2.properties"),
            **properties,
        }
        command = [
            str(java.executable),
            *active_flags(),
            f"-Xmx{self.heap_bytes}",
            *flags,
            *(f"-D{name}={value}" for name, value in properties.items()),
            "-cp",
            class_path(spark_home()),
            _GATEWAY,
        ]
        with signals_deferred():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # never written: the JVM exits when this pipe closes
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=self.folder,
                process_group=0,  # flowdiag handles Ctrl-C
            )
            self.adopt(process)

    def adopt(self, process: subprocess.Popen[bytes] | None) -> None:
        """Take over a running JVM. Pass None as `process` if flowdiag must not end it."""
        self.process, self._failure, self._killed = process, None, False
        if process is None:
            return
        self._unregister = at_exit(partial(kill_now, process, grace_s=self.grace_s))
        if process.stdout is not None:
            threading.Thread(
                target=self._watch_output, args=(process, process.stdout), daemon=True
            ).start()

    def _watch_output(self, process: subprocess.Popen[bytes], stream: IO[bytes]) -> None:
        """Keep the last lines, and kill the JVM if a thread that the session needs dies.

        Spark continues without its scheduler, and every query would then hang.
        """
        for line in tail_lines(stream, self._lines):
            if self._failure is None and process is self.process:
                if OUT_OF_MEMORY.search(line):
                    self._failure = "memory"
                elif _DEAD_THREAD.search(line):
                    self._failure = "thread"
                else:
                    continue
                with contextlib.suppress(OSError):
                    process.kill()

    def exit_error(self) -> FlowdiagError | None:
        """Return why the JVM exited unexpectedly, or None if it is running or was ended on purpose."""
        process = self.process
        if process is None or self._killed:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            # The connection breaks before the process exits.
            process.wait(timeout=0.5 if self._failure is None else 10)
        if process.returncode is None:
            return None
        time.sleep(0.05)  # the last lines may still be in the pipe
        if self._failure == "memory":
            return self.out_of_memory()
        if process.returncode == -9 and self._failure is None:
            return FlowdiagError(
                "Java was killed, perhaps because the system is out of memory",
                hint=f"its heap may use {self.heap_bytes >> 20} MB: reduce it with --java-heap 512m, or"
                " use less input",
            )
        return FlowdiagError(
            f"Java exited unexpectedly (status {process.returncode})", hint=self.output_hint()
        )

    def await_gateway(self) -> tuple[int, str]:
        """Wait until the JVM listens.

        Returns:
            The port, and the secret that clients need.

        Raises:
            RuntimeError: the JVM exited, or takes too long.
        """
        path = self.folder / "gateway"
        deadline = time.monotonic() + START_TIMEOUT_S
        assert self.process is not None
        while not path.exists():
            if self.process.poll() is not None:
                raise RuntimeError(f"the JVM exited with status {self.process.returncode}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the JVM did not respond within {START_TIMEOUT_S:.0f} s")
            time.sleep(0.005)
        content = path.read_bytes()  # port, length of the secret, secret
        path.unlink()
        return int.from_bytes(content[:4], "big"), content[8:].decode()

    def rejected_archive(self) -> bool:
        """Return whether the JVM reported that the class archive does not fit."""
        return any(ARCHIVE_REJECTED.match(line) for line in self._lines)

    def output(self) -> str:
        """Return the last lines of output from the JVM and its Python workers."""
        return "".join(self._lines)[-_OUTPUT_LIMIT:].strip()

    def output_hint(self) -> str | None:
        """Return a hint: the last errors in the output or, without errors, its last lines."""
        lines = self.output().splitlines()
        last = [line for line in lines if " ERROR " in line][-3:] or lines[-12:]
        return "last output of the JVM: " + " / ".join(last) if last else None

    @property
    def ran_out_of_memory(self) -> bool:
        return self._failure == "memory"

    def out_of_memory(self) -> FlowdiagError:
        """Return the error for a heap that is too small."""
        return FlowdiagError(
            f"Java ran out of memory with a heap of {self.heap_bytes >> 20} MB",
            hint=f"increase the heap with --java-heap {max(2, self.heap_bytes >> 29)}g, or use less input",
        )

    def finish(self, timeout_s: float) -> int | None:
        """Wait until the JVM exits on its own; return its exit status, or None after the timeout."""
        if self.process is None or self.process.stdin is None:
            return None
        self.process.stdin.close()
        try:
            return self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """Kill the JVM. May be called twice."""
        process, self.process, self._killed = self.process, None, True
        if process is None:
            return
        process.kill()
        process.wait()
        if self._unregister is not None:
            self._unregister()
        if process.stdin is not None:
            process.stdin.close()


def default_heap_bytes() -> int:
    """Return a quarter of the memory of this host or container, from 512 MB to 2 GB.

    Spark itself needs half a gigabyte. flowdiag processes its inputs in pieces, so a heap above 2 GB would
    only fill with garbage.
    """
    return min(max(memory_bytes() // 4, 512 << 20), 2 << 30)


def spark_home() -> Path:
    """Return the folder of pyspark's own Spark, without importing pyspark.

    Raises:
        FlowdiagError: pyspark is not installed, or lacks its jars.
    """
    package = importlib.util.find_spec("pyspark")
    if package is not None and package.origin is not None:
        home = Path(package.origin).parent
        if (home / "jars").is_dir():
            return home
    raise FlowdiagError("no pyspark with its jars is installed", hint="pip install pyspark")


def usable_archive(java: Java) -> Archive | None:
    """Return the archive of `flowdiag warm` for exactly this setup, if it exists."""
    archive = expected_archive(java)
    if archive is None or not archive.is_usable():
        return None
    archive.touch()
    return archive


def expected_archive(java: Java) -> Archive | None:
    """Return the archive for this setup, which may not exist yet."""
    home = spark_home()
    return archive_for(java, [*active_flags(), class_path(home)], home / "jars")


def active_flags() -> Sequence[str]:
    """Return the fixed flags, except the flags of disabled optimizations."""
    return [
        flag for flag in FLAGS if flag not in _TRICK_OF_FLAG or is_enabled(_TRICK_OF_FLAG[flag])
    ]


def class_path(home: Path) -> str:
    """Return Spark's jars in a fixed order: an archive is only valid for the class path of its creation.

    Jars that a local session never needs are omitted, and not only to save space: MLlib registers functions
    at every session start, which took a tenth of the JVM's work in a small diagnosis. Spark and Scala come
    first, because Java searches the jars for a class in order.
    """
    unused = _UNUSED_JARS if is_enabled(Optimization.FEWER_JARS) else ()
    jars = [jar for jar in (home / "jars").glob("*.jar") if not jar.name.startswith(unused)]
    jars.sort(key=lambda jar: (not jar.name.startswith(("spark-", "scala-")), jar.name))
    return os.pathsep.join(map(str, jars))


def tail_lines(stream: IO[bytes], lines: deque[str]) -> Iterator[str]:
    """Yield a stream's lines and keep the last of them, so that a full pipe never blocks the writer."""
    with stream:
        while line := stream.readline(2000):
            lines.append(line.decode("utf-8", "replace"))
            yield lines[-1]
