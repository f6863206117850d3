"""Writes the listener's files into a folder, and builds the jar if a JDK and Spark are available."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from flowdiag.parsers.cleanup import temporary_folder
from flowdiag.parsers.errors import FlowdiagError

PYTHON: Final = "flowdiag_listener.py"
JAVA: Final = "FlowdiagListener.java"
JAR: Final = "FlowdiagListener.jar"
BYTECODE: Final = "8"  # of Spark 3; later versions run it as well
COMPILE_SECONDS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFiles:
    """The written files.

    Attributes:
        files: in the order shown to the user.
        without_jar: why there is no jar; None if there is a jar.
        spark: the Spark installation that the jar was compiled against.
    """

    files: tuple[Path, ...]
    without_jar: str | None
    spark: Path | None


def export(folder: Path, *, spark_home: str | None = None) -> ExportedFiles:
    """Write the Python file, the Java source and, if a JDK and Spark's jars are found, the jar.

    Args:
        folder: target folder; created if missing.
        spark_home: the Spark installation to compile against; by default `SPARK_HOME`, otherwise PySpark's own jars.

    Raises:
        FlowdiagError: the folder is not writable, or `spark_home` contains no Spark.
    """
    jars = _jars(spark_home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [_copy(name, folder) for name in (PYTHON, JAVA)]
    except OSError as error:
        raise FlowdiagError(f"cannot write to {folder}: {error.strerror}") from error
    home = os.environ.get("JAVA_HOME")
    javac = (home and shutil.which("javac", path=f"{home}/bin")) or shutil.which("javac")
    if jars is None:
        why = "no Spark installation found; pass --spark-home"
    elif javac is None:
        why = "no JDK found (javac); set JAVA_HOME"
    else:
        why = _build(javac, jars, folder)
        if not why:
            return ExportedFiles(
                files=(*written, folder / JAR), without_jar=None, spark=jars.parent
            )
    return ExportedFiles(files=tuple(written), without_jar=why, spark=None)


def _copy(name: str, folder: Path) -> Path:
    target = folder / name
    target.write_bytes(files("flowdiag.cli.listener").joinpath(name).read_bytes())
    return target


def _jars(spark_home: str | None) -> Path | None:
    """Find Spark's `jars` folder: in `spark_home`, in the environment's Spark, or in PySpark."""
    if spark_home is not None:
        jars = Path(spark_home) / "jars"
        if not _has_streaming(jars):
            raise FlowdiagError(
                f"no Spark in {spark_home}",
                hint="its folder `jars` must contain spark-streaming_*.jar",
            )
        return jars
    places = [Path(named) for named in (os.environ.get("SPARK_HOME"),) if named]
    package = importlib.util.find_spec("pyspark")
    if package is not None and package.origin is not None:
        places.append(Path(package.origin).parent)
    return next((home / "jars" for home in places if _has_streaming(home / "jars")), None)


def _has_streaming(jars: Path) -> bool:
    return any(jars.glob("spark-streaming_*.jar"))


def _build(javac: str, jars: Path, folder: Path) -> str:
    """Compile and pack the jar; return the reason of a failure, or ""."""
    with temporary_folder("flowdiag-") as classes:
        command = [javac, "-nowarn", "-Xlint:none", "--release", BYTECODE, "-encoding", "UTF-8"]
        command += ["-cp", f"{jars}{os.sep}*", "-d", str(classes), str(folder / JAVA)]
        try:
            answer = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMPILE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"javac did not run: {error}"
        if answer.returncode:
            first = (answer.stderr.strip() or answer.stdout.strip()).partition("\n")[0]
            return f"javac failed: {first}"
        with zipfile.ZipFile(folder / JAR, "w", zipfile.ZIP_DEFLATED) as jar:
            jar.writestr(_entry("META-INF/MANIFEST.MF"), "Manifest-Version: 1.0\r\n\r\n")
            for path in sorted(classes.rglob("*.class")):
                jar.writestr(_entry(path.relative_to(classes).as_posix()), path.read_bytes())
    return ""


def _entry(name: str) -> zipfile.ZipInfo:
    """Create a zip entry without a time, so that builds are reproducible."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
