"""Machines that lack memory, room or a home, or speak another language: one clear line, or the same report.

docs/reliability.md has the table. What needs no Java is tried with `memory`, which calculates without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flowdiag.cli.app import main
from flowdiag.cli.process import start
from tests.cli.test_endings import FLINK, in_a_small_folder, linux_only
from tests.ending import FLOWDIAG

pytestmark = [
    pytest.mark.command,
    pytest.mark.skipif(os.name != "posix", reason="limits and locales of POSIX"),
]

CALCULATED = ("memory", "--process-size", "4g", "--flink", "1.20", "--format", "json")


def run(
    *arguments: str | bytes, prepare: Callable[[], object] | None = None, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*FLOWDIAG, *arguments],
        check=False,
        capture_output=True,
        env={**os.environ, **environ},
        preexec_fn=prepare,
        timeout=200,
    )


def one_line(done: subprocess.CompletedProcess[bytes], *words: str) -> None:
    """An error of one line, with a line of what helps, and nothing else."""
    told = done.stderr.decode()
    lines = told.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, b"", 2), told
    assert lines[0].startswith("error: ") and lines[1].startswith("  hint: "), told
    for word in words:
        assert word in told


@linux_only
@pytest.mark.parametrize(
    "megabytes",
    [140, *(pytest.param(n, marks=pytest.mark.full) for n in (60, 100, 160, 180, 240, 320))],
)
def test_python_without_memory_ends_in_one_line(megabytes: int, tmp_path: Path) -> None:
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    (tmp_path / "flink-conf.yaml").write_text("taskmanager.memory.process.size: 4g\n")
    done = run("memory", str(tmp_path), "--format", "json", prepare=limit)
    if done.returncode not in (0, 1, 3):
        one_line(done, "not enough memory")


@linux_only
@pytest.mark.full
def test_too_few_open_files_is_one_line_or_enough(tmp_path: Path) -> None:
    import resource

    (tmp_path / "flink-conf.yaml").write_text("taskmanager.memory.process.size: 4g\n")
    for most in (12, 16, 24):  # with fewer Python itself does not start
        done = run(
            "memory",
            str(tmp_path),
            prepare=lambda most=most: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),  # type: ignore[misc]
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't start new thread"),
        ImportError("libx.so: failed to map segment from shared object"),
        OSError(12, "Cannot allocate memory"),
        OSError(24, "Too many open files"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_lacks_ends_the_command(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def lacking(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("flowdiag.analyses.diagnosis.report_on", lacking)
    assert main([*CALCULATED]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 2
    files = isinstance(error, OSError) and error.errno == 24
    assert err.startswith(f"error: {'too many open files' if files else 'not enough memory'}: ")


@pytest.mark.parametrize("error", [MemoryError(), ImportError("x.so: failed to map segment")])
def test_so_does_what_lacks_before_there_is_a_command(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def lacking() -> None:
        raise error

    def ended(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr("flowdiag.cli.app.main", lacking)
    monkeypatch.setattr("flowdiag.cli.process.handle_signals", lambda handler: None)
    monkeypatch.setattr("flowdiag.parsers.cleanup.clean_up", lambda: None)
    monkeypatch.setattr(os, "_exit", ended)
    with pytest.raises(SystemExit) as raised:
        start()
    assert raised.value.code == 2
    assert capfd.readouterr().err.startswith("error: not enough memory to start\n")


LOCALES = ("C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "de_DE.ISO-8859-1", "zh_CN.GBK", "no_SUCH")


@pytest.mark.full
def test_no_locale_changes_a_report(tmp_path: Path) -> None:
    """Installed or not; the wrong ones as well."""
    found = {run(*CALCULATED, LC_ALL=name, LANG=name).stdout for name in LOCALES}
    assert len(found) == 1 and b'"processes"' in found.pop()


@linux_only
@pytest.mark.full
@pytest.mark.parametrize("locale", ["C", "en_US.UTF-8", "de_DE.ISO-8859-1"])
def test_file_names_in_no_encoding_are_read_and_shown(locale: str, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9 \n \xff"
    os.mkdir(folder)
    with open(folder + b"/flink-conf.yaml", "wb") as file:
        file.write(b"taskmanager.memory.process.size: 4g\n")
    for format in ("json", "table", "markdown"):
        done = run("memory", folder, "--format", format, LC_ALL=locale)
        assert done.returncode in (0, 1), done.stderr.decode()
        assert b"\xff" not in done.stdout and done.stdout.decode("utf-8").strip()


@pytest.mark.parametrize(
    "mask", [0o077, *(pytest.param(mask, marks=pytest.mark.full) for mask in (0o000, 0o777))]
)
def test_no_umask_is_in_the_way(mask: int, tmp_path: Path) -> None:
    """What is temporary is private whatever the mask; a report has the rights that it leaves."""
    folder, target = tmp_path / "temporary", tmp_path / "report.json"
    folder.mkdir()
    done = run(*CALCULATED, "-o", str(target), prepare=lambda: os.umask(mask), TMPDIR=str(folder))
    assert done.returncode in (0, 1), done.stderr.decode()
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert list(folder.iterdir()) == []


def test_a_home_that_is_none_is_in_nobodys_way() -> None:
    none = "/dev/null"
    done = run(*CALCULATED, HOME=none, XDG_CACHE_HOME=none, XDG_CONFIG_HOME=none)
    assert done.returncode in (0, 1) and done.stderr == b"", done.stderr.decode()


def test_a_cache_that_cannot_be_written_is_one_line() -> None:
    one_line(run("warm", FLOWDIAG_CACHE_DIR="/dev/null/cache"), "/dev/null/cache")


@linux_only
@pytest.mark.full
def test_a_cache_without_room_is_one_line(tmp_path: Path) -> None:
    os.environ["FLOWDIAG_CACHE_DIR"] = str(tmp_path)
    try:
        status, err = in_a_small_folder(["warm", "--force"], "1m", tmp_path)
    finally:
        del os.environ["FLOWDIAG_CACHE_DIR"]
    assert (status, len(err.splitlines())) == (2, 2), err
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_goes_backwards_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*CALCULATED])
    before = capsys.readouterr().out
    now = iter(range(2_000_000_000, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    monkeypatch.setattr(time, "time_ns", lambda: next(now) * 10**9)
    main([*CALCULATED])
    assert capsys.readouterr().out == before


BACKWARDS = (
    "import sys, time; now = iter(range(2_000_000_000, 0, -3600));"
    " time.time = lambda: float(next(now));"
    " from flowdiag.cli.process import start; start()"
)


@pytest.mark.full
def test_nor_does_it_where_java_is_waited_for(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    found = [
        subprocess.run(
            [*how, "checkpoints", FLINK, "--format", "json"],
            check=False,
            capture_output=True,
            env=environ,
            timeout=120,
        )
        for how in (FLOWDIAG, (sys.executable, "-c", BACKWARDS))
    ]
    assert found[0].stdout == found[1].stdout and found[0].stdout
    assert found[1].returncode == found[0].returncode
    assert list(tmp_path.iterdir()) == []
