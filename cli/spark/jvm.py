"""The JVM: started directly, with one fixed set of flags, without Spark's scripts and launcher.

Spark's own way is a shell script that starts a JVM which prints the command line of another one. One
fixed set of flags is what lets one class-data archive (`flowdiag.cli.spark.warm`) serve every run.
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
from typing import IO, Final

from flowdiag.cli.spark.archive import Archive, archive_for
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.tricks import Trick, used
from flowdiag.parsers.cleanup import at_exit, kill_now, signals_deferred
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.machine import memory_bytes

START_TIMEOUT_S: Final = 180.0
"""A JVM that has not answered by then never will (a loaded machine takes up to 30 s)."""

_LOG_LIMIT: Final = 64 * 1024  # characters of the JVM's output that are kept
_GATEWAY: Final = "org.apache.spark.api.python.PythonGatewayServer"
# The JVM's own words about an archive that it does not take (17 to 25). Other warnings of the same
# part of the JVM are harmless.
REFUSED: Final = re.compile(
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

FLAGS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--sun-misc-unsafe-memory-access=allow",  # Arrow, from Java 24 on
    "--enable-native-access=ALL-UNNAMED",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    # Without it the thread that ran out of memory ends, and whoever waits for it waits for ever.
    "-XX:+ExitOnOutOfMemoryError",
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

_OF_TRICKS: Final[Mapping[str, Trick]] = {
    "-XX:+UseSerialGC": Trick.SERIAL_COLLECTOR,
    "-XX:TieredStopAtLevel=1": Trick.FIRST_COMPILER,
    "-XX:ReservedCodeCacheSize=200m": Trick.CODE_ROOM,
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

# Variables of the user's own Spark or Java set-up that would lead a local session astray.
FOREIGN: Final = (
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


# What Spark catches of these is only logged, by the thread that should have answered. The JVM's own word
# for it, at its end, is `Terminating due to java.lang.OutOfMemoryError: Java heap space`. A Java that makes a
# cache prints its command line, with our flag.
OUT_OF_MEMORY: Final = re.compile(
    r"(?<!ExitOn)OutOfMemoryError|Could not reserve enough space|There is insufficient memory for the Java"
)
_LOST_THREAD: Final = re.compile(
    r'Exception in thread "(?:dag-scheduler-event-loop|task-result-getter|dispatcher-)'
    r"|Uncaught (?:exception|error) in thread (?:dag-scheduler-event-loop|task-result-getter|dispatcher-)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Jvm:
    """A JVM that answers pyspark's calls, with the last lines that it and its workers wrote."""

    folder: Path  # private: its working directory, and where it says which port it listens on
    heap_bytes: int = field(default_factory=lambda: heap_here())  # at most
    asked_s: float = 0  # so long it is asked to end before a signal that ends us kills it
    process: subprocess.Popen[bytes] | None = None
    _forget: Callable[[], object] | None = None
    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=400))
    _fate: str | None = None
    _killed: bool = False

    def start(self, java: Java, properties: Mapping[str, str], flags: Sequence[str]) -> None:
        """Spawn it and return at once.

        Args:
            java: that it is.
            properties: Spark's settings among them.
            flags: more, behind the fixed ones.

        Raises:
            OSError: it cannot be started.
            FlowdiagError: there is no Spark.
        """
        (self.folder / "log4j2.properties").write_text(_LOG4J2)
        environ = {name: value for name, value in os.environ.items() if name not in FOREIGN}
        environ["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self.folder / "gateway")
        environ["SPARK_CONNECT_MODE"] = "0"
        told = {
            "java.io.tmpdir": str(self.folder),
            "log4j2.configurationFile": str(self.folder / "log4j2.properties"),
            **properties,
        }
        command = [
            str(java.executable),
            *flags_used(),
            f"-Xmx{self.heap_bytes}",
            *flags,
            *(f"-D{name}={value}" for name, value in told.items()),
            "-cp",
            class_path(spark_home()),
            _GATEWAY,
        ]
        with signals_deferred():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # never written to: its end is how the JVM learns of ours
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environ,
                cwd=self.folder,
                process_group=0,  # Ctrl-C is for us to handle
            )
            self.adopt(process)

    def adopt(self, process: subprocess.Popen[bytes] | None) -> None:
        """Take over one that was started elsewhere; None where it is not ours to end."""
        self.process, self._fate, self._killed = process, None, False
        if process is None:
            return
        self._forget = at_exit(partial(kill_now, process, asked_s=self.asked_s))
        if process.stdout is not None:
            threading.Thread(
                target=self._listen, args=(process, process.stdout), daemon=True
            ).start()

    def _listen(self, process: subprocess.Popen[bytes], stream: IO[bytes]) -> None:
        """Keep what it says; end it where a thread ended on which the session depends.

        Spark goes on without its scheduler, and every query would wait for ever.
        """
        for line in drained(stream, self._lines):
            if self._fate is None and process is self.process:
                if OUT_OF_MEMORY.search(line):
                    self._fate = "memory"
                elif _LOST_THREAD.search(line):
                    self._fate = "thread"
                else:
                    continue
                with contextlib.suppress(OSError):
                    process.kill()

    def obituary(self) -> FlowdiagError | None:
        """Why it is gone, where it ended without being told to; None while it runs."""
        process = self.process
        if process is None or self._killed:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(
                timeout=0.5 if self._fate is None else 10
            )  # a connection breaks before it ends
        if process.returncode is None:
            return None
        time.sleep(0.05)  # its last words may be on their way
        if self._fate == "memory":
            return self.out_of_memory()
        if process.returncode == -9 and self._fate is None:
            return FlowdiagError(
                "Java was killed, perhaps by the system for want of memory",
                hint=f"its heap may take {self.heap_bytes >> 20} MB: set less by --java-heap 512m, or"
                " give less input",
            )
        told = f"Java ended in the middle of its work (status {process.returncode})"
        return FlowdiagError(told, hint=self.last_words())

    def answer(self) -> tuple[int, str]:
        """Wait until it listens.

        Returns:
            The port, and the secret that callers have to know.

        Raises:
            RuntimeError: it ended, or takes too long.
        """
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

    def refused_its_archive(self) -> bool:
        """Whether it said that the archive of classes does not fit."""
        return any(REFUSED.match(line) for line in self._lines)

    def output(self) -> str:
        """The last lines that it and its Python workers wrote."""
        return "".join(self._lines)[-_LOG_LIMIT:].strip()

    def last_words(self) -> str | None:
        """What it said of its end, for a hint."""
        lines = self.output().splitlines()
        last = [line for line in lines if " ERROR " in line][-3:] or lines[-12:]
        return "the JVM's last words were: " + " / ".join(last) if last else None

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether it said so."""
        return self._fate == "memory"

    def out_of_memory(self) -> FlowdiagError:
        """What to tell of a heap that was too small."""
        return FlowdiagError(
            f"Java ran out of memory, with a heap of {self.heap_bytes >> 20} MB",
            hint=f"give it more by --java-heap {max(2, self.heap_bytes >> 29)}g, or give less input",
        )

    def finish(self, timeout_s: float) -> int | None:
        """Let it end by itself; its exit status, or None where it took longer than the timeout."""
        if self.process is None or self.process.stdin is None:
            return None
        self.process.stdin.close()
        try:
            return self.process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it at once. May be called twice."""
        process, self.process, self._killed = self.process, None, True
        if process is None:
            return
        process.kill()
        process.wait()
        if self._forget is not None:
            self._forget()
        if process.stdin is not None:
            process.stdin.close()


def heap_here() -> int:
    """Bytes of heap for this machine, or for the share of it that a container may use: a quarter.

    Less than half a gigabyte is too little for Spark itself, and more than two are never needed for what
    is measured in pieces: a larger heap would only be filled with garbage.
    """
    return min(max(memory_bytes() // 4, 512 << 20), 2 << 30)


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
    return archive_for(java, [*flags_used(), class_path(home)], home / "jars")


def flags_used() -> Sequence[str]:
    """The fixed flags, but for those of tricks that are left out."""
    return [flag for flag in FLAGS if flag not in _OF_TRICKS or used(_OF_TRICKS[flag])]


def class_path(home: Path) -> str:
    """Spark's jars, in a fixed order: an archive is only valid for the path it was made on.

    Left out is what a local session never needs. That is not only a matter of size: MLlib registers
    functions whenever a session starts, which took a tenth of the JVM's work in a small diagnosis.
    Spark and Scala come first, since a class is looked for in one jar after the other.
    """
    unused = _UNUSED_JARS if used(Trick.FEWER_JARS) else ()
    jars = [jar for jar in (home / "jars").glob("*.jar") if not jar.name.startswith(unused)]
    jars.sort(key=lambda jar: (not jar.name.startswith(("spark-", "scala-")), jar.name))
    return os.pathsep.join(map(str, jars))


def drained(stream: IO[bytes], lines: deque[str]) -> Iterator[str]:
    """The lines of a stream, of which the last are kept: a full pipe never stops its writer."""
    with stream:
        for line in _short_lines(stream):
            lines.append(line.decode("utf-8", "replace"))
            yield lines[-1]


def _short_lines(stream: IO[bytes]) -> Iterator[bytes]:
    while line := stream.readline(2000):
        yield line
