"""Runs whole commands over mutated folders in one Spark session, and checks the invariants of every
run.

- The exit code is documented and never the code of a bug; no stream contains a traceback.
- With a report, standard output is a document that fits the JSON Schema, and none of its errors is
a bug.
- Without a report, standard output is empty and standard error gives the reason in one line.
- Every format renders the report.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, Self
from unittest import mock
from xml.etree import ElementTree as Xml

import jsonschema

from flowdiag.analyses.report.transform import json_schema
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.cli import app, diagnosing
from flowdiag.cli.settings import Format
from flowdiag.cli.spark.starter import SparkStarter
from tests.archives import FIXTURES, synthetic, unpacked
from tests.fuzz.found import Found
from tests.fuzz.minimising import without_needless
from tests.fuzz.mutations import mutated
from tests.fuzz.parsing import Broken, where
from tests.fuzz.plain import quick_place
from tests.fuzz.seeds import seeds

Folder = Mapping[str, bytes]
"""Files by name."""

_HEAD, _TAIL = 60_000, 40_000
"""Bytes kept of a long file, because a command over whole recordings takes seconds."""
_MINIMISING_S: Final = 120
_FILES: Final = 12
_OPTIONS: Final = (
    ("--redact",), ("--no-excerpts",), ("--max-rows", "3"), ("--min-severity", "critical"),
    ("--since", "1h"), ("--until", "2026-11-20T23:11:00"), ("--tz", "Asia/Kolkata"), ("--job", "*"),
    ("--job", "o"), ("--fail-on", "never"), ("--allow-inconclusive",), ("--select", "CP,RT"),
    ("--ignore", "CP1"), ("--strict-inputs",), ("--since", "0001-01-01"), ("--verbose",),
)  # fmt: skip
_NAMES: Final = (
    "a.log", "jobmanager.log.1", "flink-conf.yaml", "jobs_x.json", "worker\u202e.log", "taskmanager-2.log.gz",
    "[x].log", "a b\n.log", "gc.log", "x" * 200, "config.json", ".hidden", "manifest.jsonl", "-f",
)  # fmt: skip


class Shared:
    """A session for many commands, none of which ends it."""

    def __init__(self, starter: SparkStarter) -> None:
        self._starter = starter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._starter, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._starter.folder / "rows", ignore_errors=True)


class Session:
    """Replaces the session of a command with one that the tests started."""

    on_cluster = False
    cores = 2

    def __init__(self, spark: Any, folder: Path) -> None:
        self._spark, self.folder = spark, folder

    def session(self) -> Any:
        return self._spark

    def tune(self, rows: int | None) -> None:
        """Ignore the number of rows."""

    def summary_lines(self) -> list[str]:
        return []

    def explain_failures(self) -> contextlib.nullcontext[None]:
        """Pass on Spark's own errors."""
        return contextlib.nullcontext()


def search(folder: Path, seconds: float, seed: int) -> int:
    """Try commands up to the time limit, and return the exit code. The arguments are those of
    `plain.search`."""
    found, began = Found(folder), time.monotonic()
    with (
        SparkStarter.begin() as starter,
        tempfile.TemporaryDirectory(dir=quick_place()) as place,
    ):
        starter.session()
        number, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            chance = Random(f"{seed} {number}")
            number += 1
            files, arguments = mutated_folder(chance), drawn(chance)
            kind = try_command(files, arguments, Path(place), Shared(starter), found)
            found.counts(arguments[0], kind, b"".join(files.values()))
    return found.print_summary(time.monotonic() - began)


def drawn(chance: Random) -> list[str]:
    """Return a random command with options but without a path."""
    options = [
        word for each in chance.sample(_OPTIONS, chance.choice((0, 0, 1, 3))) for word in each
    ]
    return [chance.choice(("diagnose", "diagnose", *ENGINES)), *options]


# -- folders -----------------------------------------------------------------------------------


@cache
def recordings() -> tuple[Path, ...]:
    """Return the folders of recordings and of synthetic inputs."""
    found = sorted(path.parent for path in (FIXTURES / "recordings").rglob("truth.json"))
    found += sorted(path.parent for path in synthetic().rglob("truth.json"))
    return tuple(path for path in found if "memory" not in path.parts)


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files of a recording, with long files cut to their start and end."""
    top = unpacked(folder) if folder.is_relative_to(FIXTURES) else folder
    files = {}
    for path in sorted(top.rglob("*")):
        if path.is_file() and path.name != "truth.json":
            data = path.read_bytes()
            if len(data) > _HEAD + _TAIL and path.suffix in (".log", ".out", ".jsonl", ""):
                data = data[:_HEAD] + data[data.find(b"\n", len(data) - _TAIL) :]
            files[str(path.relative_to(top))] = data
    return files


def mutated_folder(chance: Random) -> dict[str, bytes]:
    """Return the files of one or two recordings, some of them changed, renamed, mixed or
    removed.
    """
    files = files_of(chance.choice(recordings()))
    if chance.random() < 0.2:
        other = files_of(chance.choice(recordings()))
        files |= {f"other/{name}" if chance.random() < 0.5 else name: other[name] for name in other}
    if chance.random() < 0.3:
        kept = chance.sample(sorted(files), min(len(files), chance.choice((1, 2, 5))))
        files = {name: files[name] for name in kept}
    others = [each.data for each in seeds()]
    for _ in range(chance.choice((1, 1, 2, 4))):
        if not files:
            break
        # Prefers logs to the hundreds of small answers.
        name = chance.choices(sorted(files), [len(files[n]) ** 0.5 + 1 for n in sorted(files)])[0]
        what = chance.random()
        if what < 0.6:
            files[name] = mutated(files[name], chance, others)
        elif what < 0.7:
            files[name] = b"".join(mutated(part, chance, others) for part in _thirds(files[name]))
        elif what < 0.8:
            del files[name]
        elif what < 0.9:
            files[chance.choice(_NAMES)] = files.pop(name)
        else:
            files[f"{name}.{chance.choice(_NAMES)[:40]}"] = chance.choice(others)
    return files


def _thirds(data: bytes) -> list[bytes]:
    size = len(data) // 3 + 1
    return [data[at : at + size] for at in range(0, len(data), size)]


def lay_out(files: Folder, place: Path) -> Path:
    """Write the files to a new folder below this place."""
    top = Path(tempfile.mkdtemp(dir=place))
    for name, data in files.items():
        path = top / name
        with contextlib.suppress(OSError):  # a name that a folder has already
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return top


# -- one run -----------------------------------------------------------------------------------


def try_command(
    files: Folder, arguments: Sequence[str], place: Path, spark: Any, found: Found
) -> str:
    """Try one command, keep a minimized folder with the same fault, and return the outcome."""
    what, more, kind = fault(files, arguments, place, spark)
    if what is not None and found.is_new(what):
        until = time.monotonic() + _MINIMISING_S

        def shows(some: Folder) -> bool:
            return fault(some, arguments, place, spark)[0] == what

        names = without_needless(
            sorted(files), lambda some: shows({name: files[name] for name in some}), until
        )
        small = {name: files[name] for name in names}
        for name in names:
            small[name] = _shortened(small, name, shows, until)
        target = found.place(what)
        shutil.rmtree(target, ignore_errors=True)
        lay_out(small, found.folder).rename(target)
        (target / "command.json").write_text(json.dumps(arguments) + "\n")
        target.with_name(target.name + ".txt").write_text(more)
    return kind


def _shortened(files: Folder, name: str, shows: Callable[[Folder], bool], until: float) -> bytes:
    lines = files[name].splitlines(keepends=True)
    return b"".join(
        without_needless(lines, lambda some: shows({**files, name: b"".join(some)}), until)
    )


def fault(
    files: Folder, arguments: Sequence[str], place: Path, spark: Any
) -> tuple[str | None, str, str]:
    """Return the fault of a command (None: no fault), details, and its exit code."""
    top = lay_out(files, place)
    try:
        code = check([*arguments, str(top)], place, spark)
    except Broken as broken:
        return broken.what, str(broken), "broken"
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return None, "", f"exit code {code}"


def check(arguments: Sequence[str], place: Path, spark: Any) -> int:
    """Run a command, check all invariants, and return its exit code.

    Args:
        arguments: the command line, without the format.
        place: a folder for its report.
        spark: replaces `start_spark` of the command.

    Raises:
        Broken: an invariant is violated.
    """
    code, out, err = run([*arguments, "--format", "json"], spark)
    if code not in (0, 1, 2, 3):
        raise Broken(f"exit code {code}: {_traceback_summary(err)}", err)
    if code == 2:
        if out or "error:" not in err:
            raise Broken("exit code 2 without a word, or with a report", f"{out[:200]}\n{err}")
        return code
    document = json.loads(out)
    problem = next(iter(_validator().iter_errors(document)), None)
    if problem is not None:
        raise Broken(f"not of the schema: {problem.json_path}", str(problem)[:2000])
    bugs = [each for each in document["errors"] if each["bug"]]
    if bugs:
        what = bugs[0]["fingerprint"] or bugs[0]["what"][:100]
        raise Broken(f"the report contains a bug: {what}", json.dumps(bugs, indent=1))
    _rendered(out, place)
    return code


def _rendered(document: str, place: Path) -> None:
    saved = place / "report.json"
    saved.write_text(document, encoding="utf-8")
    for form in Format:
        code, out, err = run(["render", str(saved), "--format", form.value], None)
        if code != 0 or not out.endswith("\n"):
            raise Broken(f"not rendered as {form.value}: {_traceback_summary(err)}", err)
        if form is Format.JUNIT:
            Xml.fromstring(out)
        if "\x1b" in out or "\u202e" in out:
            raise Broken(f"what a terminal obeys comes out as {form.value}", repr(out[:500]))


def run(arguments: Sequence[str], spark: Any) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code and the content of both streams."""
    out, err = _Stream(), _Stream()

    @contextmanager
    def shared(*_: object) -> Iterator[Any]:
        yield spark

    environ = {"FLOWDIAG_WARM": "never", "NO_COLOR": "1"}
    with (
        mock.patch.object(diagnosing, "start_spark", shared),
        mock.patch.dict(os.environ, environ),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
    ):
        try:
            code = int(app.main([*arguments, *(["--debug"] if spark is not None else [])]))
        except Exception as fault:
            place = where(traceback.extract_tb(fault.__traceback__))
            raise Broken(f"{type(fault).__name__}: {place}", traceback.format_exc()) from fault
    return code, out.text, err.text


class _Stream(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace")

    @property
    def text(self) -> str:
        self.flush()
        kept: io.BytesIO = self.buffer  # type: ignore[assignment]
        return kept.getvalue().decode()


def _traceback_summary(err: str) -> str:
    """Return the exception type and our innermost frames from a traceback."""
    lines = err.splitlines()
    places = [
        f"{Path(line.split(chr(34))[1]).name} {line.rsplit(' in ', 1)[1]}"
        for line in lines
        if line.startswith('  File "')
        and any(f"/{p}/" in line for p in ("parsers", "analyses", "cli"))
    ]
    kinds = [
        line.split(":")[0] for line in lines if line[:1].isalpha() and "Error" in line.split(":")[0]
    ]
    return f"{kinds[-1] if kinds else (lines or ['nothing'])[0][:80]}: {' < '.join(places[:-4:-1])}"


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json_schema())
