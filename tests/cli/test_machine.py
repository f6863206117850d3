"""Hosts without memory, disk space or a home, or with another locale: one clear line, or the same report.

See docs/reliability.md. Tests that do not need Java use `memory`, which calculates without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flowdiag.cli.__main__ import start
from flowdiag.cli.app import main
from tests.cli.test_endings import FLINK, linux_only, run_in_small_folder
from tests.ending import FLOWDIAG

pytestmark = [
    pytest.mark.command,
    pytest.mark.skipif(os.name != "posix", reason="uses POSIX limits and locales"),
]

CALCULATION = ("memory", "--process-size", "4g", "--flink", "1.20", "--format", "json")


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


def assert_one_line(done: subprocess.CompletedProcess[bytes], *words: str) -> None:
    """Check that the only output is an error of one line and a hint of one line."""
    err = done.stderr.decode()
    lines = err.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, b"", 2), err
    assert lines[0].startswith("error: ") and lines[1].startswith("  hint: "), err
    for word in words:
        assert word in err


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
        assert_one_line(done, "not enough memory")


@linux_only
@pytest.mark.full
def test_too_few_open_files_is_one_line_or_enough(tmp_path: Path) -> None:
    import resource

    (tmp_path / "flink-conf.yaml").write_text("taskmanager.memory.process.size: 4g\n")
    for limit in (12, 16, 24):  # Python itself needs at least 12
        done = run(
            "memory",
            str(tmp_path),
            prepare=lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)),  # type: ignore[misc]
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
def test_a_lack_of_resources_ends_the_command(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("flowdiag.analyses.diagnosis.report_on", fail)
    assert main([*CALCULATION]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 2
    files = isinstance(error, OSError) and error.errno == 24
    assert err.startswith(f"error: {'too many open files' if files else 'not enough memory'}: ")


@pytest.mark.parametrize("error", [MemoryError(), ImportError("x.so: failed to map segment")])
def test_a_lack_of_resources_ends_the_start(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    def exit_with(status: int) -> None:
        raise SystemExit(status)

    monkeypatch.setattr("flowdiag.cli.app.main", fail)
    monkeypatch.setattr("flowdiag.cli.process.handle_signals", lambda handler: None)
    monkeypatch.setattr("flowdiag.parsers.cleanup.clean_up", lambda: None)
    monkeypatch.setattr(os, "_exit", exit_with)
    with pytest.raises(SystemExit) as raised:
        start()
    assert raised.value.code == 2
    assert capfd.readouterr().err.startswith("error: not enough memory to start\n")


LOCALES = ("C", "POSIX", "C.UTF-8", "tr_TR.UTF-8", "de_DE.ISO-8859-1", "zh_CN.GBK", "no_SUCH")


@pytest.mark.full
def test_the_locale_does_not_change_a_report(tmp_path: Path) -> None:
    """Locales may be installed, not installed or invalid."""
    outputs = {run(*CALCULATION, LC_ALL=name, LANG=name).stdout for name in LOCALES}
    assert len(outputs) == 1 and b'"processes"' in outputs.pop()


@linux_only
@pytest.mark.full
@pytest.mark.parametrize("locale", ["C", "en_US.UTF-8", "de_DE.ISO-8859-1"])
def test_file_names_with_invalid_encoding_are_read_and_shown(locale: str, tmp_path: Path) -> None:
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
def test_any_umask_works(mask: int, tmp_path: Path) -> None:
    """Temporary files are always private; the umask applies to the report."""
    folder, target = tmp_path / "temporary", tmp_path / "report.json"
    folder.mkdir()
    done = run(*CALCULATION, "-o", str(target), prepare=lambda: os.umask(mask), TMPDIR=str(folder))
    assert done.returncode in (0, 1), done.stderr.decode()
    assert target.stat().st_mode & 0o777 == 0o666 & ~mask
    assert list(folder.iterdir()) == []


def test_no_home_folder_is_necessary() -> None:
    none = "/dev/null"
    done = run(*CALCULATION, HOME=none, XDG_CACHE_HOME=none, XDG_CONFIG_HOME=none)
    assert done.returncode in (0, 1) and done.stderr == b"", done.stderr.decode()


def test_an_unwritable_cache_is_one_line() -> None:
    assert_one_line(run("warm", FLOWDIAG_CACHE_DIR="/dev/null/cache"), "/dev/null/cache")


@linux_only
@pytest.mark.full
def test_a_full_cache_is_one_line(tmp_path: Path) -> None:
    os.environ["FLOWDIAG_CACHE_DIR"] = str(tmp_path)
    try:
        status, err = run_in_small_folder(["warm", "--force"], "1m", tmp_path)
    finally:
        del os.environ["FLOWDIAG_CACHE_DIR"]
    assert (status, len(err.splitlines())) == (2, 2), err
    assert list(tmp_path.iterdir()) == []


def test_a_clock_that_goes_back_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main([*CALCULATION])
    before = capsys.readouterr().out
    now = iter(range(2_000_000_000, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    monkeypatch.setattr(time, "time_ns", lambda: next(now) * 10**9)
    main([*CALCULATION])
    assert capsys.readouterr().out == before


WITH_CLOCK_GOING_BACK = (
    "import sys, time; now = iter(range(2_000_000_000, 0, -3600));"
    " time.time = lambda: float(next(now));"
    " from flowdiag.cli.__main__ import start; start()"
)


@pytest.mark.full
def test_a_clock_that_goes_back_does_not_affect_the_start_of_java(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [*how, "checkpoints", FLINK, "--format", "json"],
            check=False,
            capture_output=True,
            env=environ,
            timeout=120,
        )
        for how in (FLOWDIAG, (sys.executable, "-c", WITH_CLOCK_GOING_BACK))
    ]
    assert outputs[0].stdout == outputs[1].stdout and outputs[0].stdout
    assert outputs[1].returncode == outputs[0].returncode
    assert list(tmp_path.iterdir()) == []
