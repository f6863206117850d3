"""Commands end cleanly after signals, on a full disk and without memory; see docs/reliability.md."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from flowdiag.cli.app import main
from flowdiag.cli.settings import load_settings, parse_heap
from flowdiag.cli.spark.jvm import Jvm, default_heap_bytes, tail_lines
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.parsers import cleanup
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.machine import memory_bytes
from tests.ending import FLOWDIAG, Ended, end

RECORDINGS = Path(__file__).parents[2] / "fixtures/recordings"
FLINK = str(RECORDINGS / "flink/1.20.5/hot-key/hot-key.tar.zst")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")


# -- signals -------------------------------------------------------------------------------------


def assert_nothing_is_left(ended: Ended, number: int) -> None:
    """Check that nothing remains, even if the command finished before the signal."""
    assert (ended.processes, ended.files) == ((), ())
    if not ended.finished:
        assert (ended.status, ended.out, ended.err) == (128 + number, b"", b"")


@linux_only
@pytest.mark.command
@pytest.mark.parametrize(
    ("number", "after_s"),
    [
        (signal.SIGINT, 0.0),  # imports
        (signal.SIGTERM, 0.4),  # Java starts, this process unpacks and parses
        (signal.SIGINT, 1.0),  # Spark creates the session, or runs queries
    ],
)
def test_a_signal_ends_a_command_at_once(
    number: signal.Signals, after_s: float, tmp_path: Path
) -> None:
    ended = end(["checkpoints", FLINK], number, after_s, tmp_path / "temporary")
    assert_nothing_is_left(ended, number)
    assert ended.took_s < 5


@linux_only
@pytest.mark.command
def test_a_signal_ends_the_credit_simulation(tmp_path: Path) -> None:
    command = ["simulate", "credits", "--parallelism", "40,40,40", "--rate", "1000"]
    ended = end([*command, "--service", "0,5ms"], signal.SIGTERM, 0.3, tmp_path / "temporary")
    assert_nothing_is_left(ended, signal.SIGTERM)


@linux_only
@pytest.mark.command
def test_a_signal_erases_the_progress_line(tmp_path: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*FLOWDIAG, "checkpoints", FLINK],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        shown = os.read(ours, 1000)  # the first stage
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    with suppress(OSError):  # the other side is closed
        while more := os.read(ours, 1000):
            shown += more
    os.close(ours)
    assert b"checking the inputs" in shown
    assert shown.endswith(b"\r\x1b[2K")


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log so large that separate processes parse it into files."""
    from benchmarks.logs import make

    folder: Path = make(tmp_path_factory.mktemp("large"), 80, reports=True)
    return folder


COMMANDS = {
    "checkpoints": ["checkpoints", FLINK],
    "queues": ["queues", FLINK],
    "startup": ["startup", FLINK],
    "memory": ["memory", FLINK],
    "without-a-command": [FLINK],
    "simulate": ["simulate", "credits", "--from", FLINK],
    "help": ["checkpoints", "--help"],
}


MOMENTS = 20
"""The minimum number of moments at which to send a signal to a command that takes seconds."""


@linux_only
@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name
)
@pytest.mark.parametrize("name", [*COMMANDS, "large", "warm"])
def test_a_signal_at_any_moment_of_any_command(
    name: str,
    number: signal.Signals,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLOWDIAG_CACHE_DIR", str(tmp_path / "first-run"))
    if name == "large":
        arguments = ["checkpoints", str(request.getfixturevalue("large_log"))]
    else:
        arguments = COMMANDS.get(name, ["warm"])
    began = time.monotonic()
    done = subprocess.run([*FLOWDIAG, *arguments], capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr
    # On a busy host, the same number of moments with longer intervals.
    took_s = time.monotonic() - began
    monkeypatch.setenv("FLOWDIAG_CACHE_DIR", str(tmp_path / "cache"))
    after_s, step_s = 0.0, max(1.0 if name == "warm" else 0.15, took_s / MOMENTS)
    finished = False
    while not finished:
        ended = end(arguments, number, after_s, tmp_path / f"{after_s:.2f}")
        assert_nothing_is_left(ended, number)
        assert not [path for path in (tmp_path / "cache").glob("*.aot") if not ended.finished]
        finished = ended.finished
        after_s += step_s


@linux_only
@pytest.mark.command
def test_ignored_signals_stay_ignored() -> None:
    """As under `nohup`, and for background jobs of a script."""
    code = (
        "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        " from flowdiag.cli import signals; signals.handle_signals(signals.on_signal);"
        " print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,"
        " signal.getsignal(signal.SIGTERM) is signals.on_signal)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "True True\n"


@pytest.fixture
def exit_statuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Record the exit statuses instead of ending the process."""
    statuses: list[int] = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    monkeypatch.setattr(cleanup, "_state", cleanup._State())
    yield statuses


def test_clean_up_runs_in_reverse_order_despite_a_failure(exit_statuses: list[int]) -> None:
    removed: list[str] = []

    def fail() -> None:
        raise OSError("no")

    cleanup.at_exit(lambda: removed.append("folder"))
    cleanup.at_exit(fail)
    cleanup.at_exit(lambda: removed.append("process"))
    unregister = cleanup.at_exit(lambda: removed.append("already removed"))
    unregister()
    cleanup.end_now(143)
    assert (removed, exit_statuses) == (["process", "folder"], [143])


def test_a_deferred_signal_removes_what_was_just_created(exit_statuses: list[int]) -> None:
    removed: list[str] = []
    with cleanup.signals_deferred():
        cleanup.end_now(130)
        assert exit_statuses == []
        cleanup.at_exit(lambda: removed.append("created during the deferral"))
    assert (removed, exit_statuses) == (["created during the deferral"], [130])


def test_an_interrupted_clean_up_is_repeated(exit_statuses: list[int]) -> None:
    removed: list[str] = []

    def remove() -> None:
        removed.append("begun")
        if len(removed) == 1:
            cleanup.end_now(130)  # as a signal handler does during the clean-up

    cleanup.at_exit(remove)
    cleanup.clean_up()
    assert (removed, exit_statuses) == (["begun", "begun"], [130])


# -- full disk -------------------------------------------------------------------------------------

FULL = Path("/dev/full")
full_device = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


@full_device
@pytest.mark.command
@pytest.mark.parametrize("arguments", [["rules"], ["--help"]])
def test_standard_output_on_a_full_disk(arguments: list[str]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(
            [*FLOWDIAG, *arguments], check=False, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.splitlines()) == (
        2,
        [
            "error: cannot write standard output: No space left on device",
            "  hint: free some space, or choose another place with --output",
        ],
    )


@pytest.mark.command
@pytest.mark.skipif(os.name != "posix", reason="closes a descriptor in a shell")
def test_closed_standard_output_is_an_error() -> None:
    command = " ".join([*FLOWDIAG, "rules", ">&-"])
    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write standard output: Bad file descriptor\n")


@pytest.mark.command
@pytest.mark.skipif(os.name != "posix", reason="uses a shell pipe")
def test_a_pipe_reader_that_stops_early_is_not_an_error() -> None:
    command = " ".join([*FLOWDIAG, "explain", "CP101", "|", "true"])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


class UnusedSpark:
    """Replaces Spark, and fails on any use."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __getattr__(self, name: str) -> object:
        raise AssertionError(name)


@pytest.mark.parametrize("target", ["missing/report.json", "", "file/report.json"])
def test_an_invalid_output_path_is_rejected_before_the_diagnosis(
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SparkStarter, "begin", lambda **how: UnusedSpark())
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(
        "flowdiag.cli.diagnosing.deliver", lambda *arguments: pytest.fail("the diagnosis started")
    )
    assert main(["checkpoints", FLINK, "-o", str(tmp_path / target)]) == 2
    assert capsys.readouterr().err.startswith(f"error: cannot write '{tmp_path / target}': ")


def test_an_invalid_output_path_is_rejected_before_a_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "missing/outcome.json")
    assert main(["simulate", "credits", "--from", FLINK, "-o", target]) == 2
    assert main(["simulate", "pid", "no-report.json", "-o", target]) == 2
    assert capsys.readouterr().err.count(f"error: cannot write '{target}': No such file") == 2


@pytest.fixture
def limit_file_size() -> Iterator[Callable[[], None]]:
    """A `preexec_fn` that limits files to two kilobytes, as if the disk were full."""
    import resource

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    yield limit


@linux_only
@pytest.mark.command
def test_a_full_disk_leaves_no_partial_report(
    tmp_path: Path, limit_file_size: Callable[[], None]
) -> None:
    report = tmp_path / "report.json"
    saved = subprocess.run(
        [*FLOWDIAG, "memory", "--process-size", "4g", "--flink", "1.20", "-f", "json"],
        check=True,
        capture_output=True,
    ).stdout
    source = tmp_path / "saved.json"
    source.write_bytes(saved)
    report.write_text("earlier report")
    done = subprocess.run(
        [*FLOWDIAG, "render", str(source), "-f", "json", "-o", str(report)],
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=limit_file_size,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: cannot write '{report}': File too large\n")
    assert report.read_text() == "earlier report"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "saved.json"]


@pytest.mark.command
@pytest.mark.skipif(os.name != "posix", reason="TMPDIR")
def test_no_folder_for_temporary_files_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "no-folder"
    file.write_text("")
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv.pop(1);"
        " from flowdiag.cli.__main__ import start; start()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file), "checkpoints", FLINK],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    (error, hint) = done.stderr.splitlines()
    assert error.startswith("error: cannot write temporary files") and "TMPDIR" in hint


def run_in_small_folder(arguments: list[str], size: str, folder: Path) -> tuple[int, str]:
    """Run a command in a temporary folder of this size; needs user namespaces."""
    inside = f'mount -t tmpfs -o size={size} tmpfs "$TMPDIR" && exec "$@"'
    unshared = ["unshare", "-rm", "sh", "-c", inside, "sh"]
    environ = {**os.environ, "TMPDIR": str(folder)}
    if (
        not shutil.which("unshare")
        or subprocess.run(
            [*unshared, "true"], check=False, env=environ, capture_output=True
        ).returncode
    ):
        pytest.skip("needs permission to mount a file system")
    done = subprocess.run(
        [*unshared, *FLOWDIAG, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environ,
        timeout=200,
    )
    return done.returncode, done.stderr


@linux_only
@pytest.mark.command
def test_a_full_temporary_folder_is_one_line(tmp_path: Path) -> None:
    """The folder fills up while flowdiag unpacks an archive."""
    status, err = run_in_small_folder(["checkpoints", FLINK], "200k", tmp_path)
    assert (status, len(err.splitlines())) == (2, 2), err
    assert "no space left" in err.lower() and "TMPDIR" in err


@linux_only
@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", ["4k", "20k", "100k", "400k", "1m", "2m", "4m", "16m", "64m"])
@pytest.mark.parametrize("command", ["checkpoints", "startup", "queues"])
def test_a_small_temporary_folder_suffices_or_is_one_line(
    command: str, size: str, large_log: Path, tmp_path: Path
) -> None:
    """The folder fills up while Java starts, while flowdiag parses a large log, or while Spark sorts."""
    status, err = run_in_small_folder([command, str(large_log)], size, tmp_path)
    if status == 2:
        assert len(err.splitlines()) == 2 and "TMPDIR" in err, err
    else:
        assert status in (0, 1, 3), err


# -- out of memory -------------------------------------------------------------------------------


def test_the_default_heap_depends_on_the_memory(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    groups = tmp_path / "proc/self/cgroup"
    whole = memory_bytes(tmp_path)
    assert whole > 1 << 28

    groups.write_text("0::/system.slice/job.service\n")
    inner = tmp_path / "sys/fs/cgroup/system.slice/job.service"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    assert memory_bytes(tmp_path) == whole
    (inner.parent / "memory.max").write_text("268435456\n")
    assert memory_bytes(tmp_path) == 1 << 28

    groups.write_text("4:memory:/docker/x\n2:cpu:/\n")
    old = tmp_path / "sys/fs/cgroup/memory"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("134217728\n")
    assert memory_bytes(tmp_path) == 1 << 27
    assert 512 << 20 <= default_heap_bytes() <= 2 << 30


def test_settings_override_the_heap_size(tmp_path: Path) -> None:
    (tmp_path / "flowdiag.toml").write_text('java-heap = "3g"\n')
    assert load_settings({}, environ={}, folder=tmp_path).java_heap == "3g"
    environ = {"FLOWDIAG_JAVA_HEAP": "1500m"}
    assert load_settings({}, environ=environ, folder=tmp_path).java_heap == "1500m"
    assert load_settings({"java_heap": "4g"}, environ=environ).java_heap == "4g"
    for wrong in ("4", "g", "much", "511m"):
        with pytest.raises(FlowdiagError, match=f"FLOWDIAG_JAVA_HEAP is '{wrong}'"):
            load_settings({}, environ={"FLOWDIAG_JAVA_HEAP": wrong})
    assert parse_heap("1t") == 1 << 40


PRINT_AND_SLEEP = "import sys, time; print(sys.argv[1], flush=True); time.sleep(60)"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", "ran out of memory"),
        ("ERROR Executor: java.lang.OutOfMemoryError: Cannot reserve", "ran out of memory"),
        (
            'Exception in thread "dag-scheduler-event-loop" java.lang.StackOverflowError',
            "exited unexpectedly",
        ),
    ],
)
def test_a_jvm_without_its_scheduler_is_killed(line: str, message: str, tmp_path: Path) -> None:
    jvm = Jvm(tmp_path, heap_bytes=1 << 30)
    process = subprocess.Popen(
        [sys.executable, "-c", PRINT_AND_SLEEP, line], stdout=subprocess.PIPE, stdin=subprocess.PIPE
    )
    jvm.adopt(process)
    assert process.wait(timeout=20) == -signal.SIGKILL
    exit_error = jvm.exit_error()
    assert exit_error is not None and message in exit_error.message
    assert exit_error.hint
    jvm.kill()
    assert jvm.exit_error() is None


def test_a_running_jvm_has_no_exit_error(tmp_path: Path) -> None:
    jvm = Jvm(tmp_path)
    # A Java that writes a class archive prints the second line.
    harmless = "WARN MemoryStore: Not enough space to cache\n-XX:+ExitOnOutOfMemoryError -Xss4m"
    command = [sys.executable, "-c", PRINT_AND_SLEEP, harmless]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    jvm.adopt(process)
    until = time.monotonic() + 10
    while not jvm.output() and time.monotonic() < until:
        time.sleep(0.01)
    assert jvm.exit_error() is None
    os.kill(process.pid, signal.SIGKILL)
    killed = jvm.exit_error()
    assert killed is not None and "killed" in killed.message
    jvm.kill()


def test_lines_are_yielded_as_they_arrive() -> None:
    lines: deque[str] = deque(maxlen=2)
    yielded = list(tail_lines(io.BytesIO(b"a\nb\nc"), lines))
    assert (yielded, list(lines)) == (["a\n", "b\n", "c"], ["b\n", "c"])


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_small_heap_ends_in_one_line(tmp_path: Path) -> None:
    """Run the normal command with an additional query that collects more than fits into the heap."""
    program = (
        "import sys, flowdiag.analyses.engine.reading as reading\n"
        "def frame_of(found, spark, metrics=None):\n"
        "    spark.sql('SELECT collect_list(id) FROM range(0, 200000000, 1, 1)').collect()\n"
        "import flowdiag.analyses.flink.settled as settled\n"
        "settled.frame_of = frame_of\n"
        "from flowdiag.cli.__main__ import start; start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "checkpoints", FLINK, "--java-heap", "512m"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=300,
    )
    assert done.stderr.splitlines() == [
        "error: Java ran out of memory with a heap of 512 MB",
        "  hint: increase the heap with --java-heap 2g, or use less input",
    ]
    assert (done.returncode, done.stdout) == (2, "")
    assert list(tmp_path.iterdir()) == []


@linux_only
@pytest.mark.full
def test_a_killed_jvm_is_one_line(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*FLOWDIAG, "checkpoints", FLINK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text().split():
            time.sleep(0.01)
        time.sleep(1.2)
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    if process.returncode == 2:
        assert err.startswith("error: Java was killed") and len(err.splitlines()) == 2
        assert out == ""
    assert process.returncode in (1, 2)
    assert list(tmp_path.iterdir()) == []


# -- servers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "url", "collector"),
    [
        (["checkpoints"], "http://me:secret@jobmanager:8081/#/overview", "flink"),
        (["rate"], "http://driver:4040", "spark"),
        (["queues"], "https://prometheus:9090/graph", "prometheus"),
    ],
)
def test_the_hint_for_a_live_server_names_collect(
    command: list[str],
    url: str,
    collector: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SparkStarter, "begin", lambda **how: UnusedSpark())
    assert main([*command, url]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.endswith(": a live server, not a log")
    assert f"flowdiag collect {collector} http" in hint
    assert hint.startswith("  hint: flowdiag diagnose http") and "flowdiag collect" in hint
    assert f"then flowdiag {command[0]} collected/" in hint
    assert "secret" not in error + hint
