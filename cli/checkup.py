"""Checks what flowdiag needs on this host: the contents of `flowdiag doctor`. Starts neither Java nor Spark."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from flowdiag.analyses.model.fmt import listed, plural, size
from flowdiag.analyses.report.version import tool_version
from flowdiag.cli.spark import archive, jvm, keep_running
from flowdiag.cli.spark.java import NEWEST_JAVA, find_java
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install
from flowdiag.parsers.machine import memory_bytes

MEMORY: Final = 1 << 30  # bytes: Java's smallest heap, the JVM's own memory, and Python
TEMPORARY: Final = 1 << 30  # bytes: Spark's temporary files for a few GB of logs

_EXTRAS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "html": (("jinja2", "vl_convert"), "web pages: -o report.html"),
    "http": (("aiohttp", "requests"), "inputs at https:// addresses"),
    "s3": (("s3fs",), "inputs at s3://"),
    "gcs": (("gcsfs",), "inputs at gs://"),
    "abfs": (("adlfs",), "inputs at abfs://"),
    "k8s": (("kubernetes",), "flowdiag collect k8s, and k8s:// addresses"),
    "mcp": (("mcp",), "flowdiag mcp, the server for agents"),
}
"""Each extra, with its packages and its purpose."""

_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")


class Level(StrEnum):
    """The result of a check. Only `PROBLEM` keeps flowdiag from working."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `flowdiag doctor`.

    Args:
        name: what is checked: a stable name in lower case.
        level: the result.
        text: what flowdiag found, with numbers and paths.
        hint: a command or a setting that fixes or improves it.
    """

    name: str
    level: Level
    text: str
    hint: str | None = None


def checks(environ: Mapping[str, str] = os.environ) -> Iterator[Check]:
    """Yield all checks, in the order of a run: Python, Spark, Java, memory, files, extras, network."""
    yield _passed_check(
        "flowdiag", f"{tool_version()}, Python {platform.python_version()} in {sys.prefix}"
    )
    yield _spark()
    yield from _java(environ)
    yield _memory()
    yield _temporary_space()
    yield from _extras()
    yield _proxies(environ)


def _passed_check(name: str, text: str) -> Check:
    return Check(name=name, level=Level.OK, text=text)


def _problem(name: str, error: FlowdiagError) -> Check:
    return Check(name=name, level=Level.PROBLEM, text=str(error), hint=error.hint)


def _spark() -> Check:
    try:
        home = jvm.spark_home()
    except FlowdiagError as error:
        return _problem("spark", error)
    from importlib.metadata import version

    return _passed_check("spark", f"PySpark {version('pyspark')} in {home}")


def _java(environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield checks of the runtime that flowdiag would start, and of its cached classes."""
    try:
        java = find_java(environ)
    except FlowdiagError as error:
        yield _problem("java", error)
        return
    found = f"Java {java.major} of {java.origin} in {java.home}"
    if java.major > NEWEST_JAVA:
        text = f"{found}: newer than Java {NEWEST_JAVA}, the newest that Spark supports"
        yield Check(name="java", level=Level.NOTE, text=text, hint=pip_install("java"))
    else:
        yield _passed_check("java", found)
    made = jvm.usable_archive(java) if find_spec("pyspark") else None
    if made is None:
        text = f"none in {archive.cache_folder()}: every start loads all of Spark's classes"
        yield Check(name="class cache", level=Level.NOTE, text=text, hint="flowdiag warm")
    else:
        yield _passed_check("class cache", f"{made.path} ({size(made.path.stat().st_size)})")
    yield _passed_check("running java", " · ".join(keep_running.status_lines()[:1]))


def _memory() -> Check:
    total = memory_bytes()
    text = f"{size(total)}; Java gets a heap of up to {size(jvm.default_heap_bytes())}"
    if total < MEMORY:
        hint = "give the container at least 1 GiB, or read fewer files at once"
        return Check(name="memory", level=Level.PROBLEM, text=text, hint=hint)
    return _passed_check("memory", f"{text} · {plural(os.cpu_count() or 1, 'core')}")


def _temporary_space() -> Check:
    folder = Path(tempfile.gettempdir())
    text = f"{size(shutil.disk_usage(folder).free)} free in {folder}"
    if not os.access(folder, os.W_OK):
        hint = "set TMPDIR to a writable folder"
        return Check(
            name="temporary files", level=Level.PROBLEM, text=f"cannot write to {folder}", hint=hint
        )
    if shutil.disk_usage(folder).free < TEMPORARY:
        hint = "set TMPDIR to a folder with more free space"
        return Check(name="temporary files", level=Level.NOTE, text=text, hint=hint)
    return _passed_check("temporary files", text)


def _extras() -> Iterator[Check]:
    """Yield one check for all installed extras, and one for each missing extra."""
    missing = [name for name, (packages, _) in _EXTRAS.items() if not all(map(find_spec, packages))]
    there = [name for name in _EXTRAS if name not in missing]
    yield _passed_check("extras", listed(there) if there else "none")
    for name in missing:
        text = f"not installed; needed for {_EXTRAS[name][1]}"
        yield Check(name=f"extra {name}", level=Level.NOTE, text=text, hint=pip_install(name))


def _proxies(environ: Mapping[str, str]) -> Check:
    """Return the proxy variables that are set, without their values, which may contain passwords."""
    found = [name for name in _PROXIES if environ.get(name) or environ.get(name.lower())]
    return _passed_check("network", f"for live servers: {listed(found)}" if found else "no proxy")
