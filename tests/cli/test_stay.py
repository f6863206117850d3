"""Java that keeps running after a command: commands may join it, but never wait for it or fail because of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from flowdiag.cli.spark import keeper, running_java
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.jvm import Jvm
from flowdiag.cli.spark.running_java import (
    BUSY,
    HEAP_FULL,
    IDLE,
    JavaLease,
    KeeperFiles,
    RunningJava,
    keeper_files_for,
    lock_file,
)
from flowdiag.parsers.machine import free_memory_share

RECORDING = "fixtures/recordings/flink/1.20.5/hot-key/hot-key.tar.zst"
posix = pytest.mark.skipif(os.name != "posix", reason="Java keeps running only on Linux and macOS")
pytestmark = posix


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = running_java.runtime_folder()
    assert folder == tmp_path / "flowdiag"
    return folder


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def files(runtime: Path, listening: int) -> Iterator[KeeperFiles]:
    """Return the files of a running keeper, with a socket instead of Java."""
    files = KeeperFiles(runtime, "a1b2")
    with lock_file(files.keeper_lock):
        files.write(running(listening))
        yield files


def running(port: int) -> RunningJava:
    return RunningJava(
        pid=1, java_pid=2, port=port, secret="s", folder="/", idle_s=900, started_s=time.time()
    )


def test_one_command_at_a_time(files: KeeperFiles) -> None:
    first = JavaLease.acquire(files)
    assert first is not None and first.java.secret == "s"
    assert JavaLease.acquire(files) is None
    assert keeper._state_after_last_use(files) is None
    first.release()
    first.release()
    assert keeper._state_after_last_use(files) == IDLE
    second = JavaLease.acquire(files)
    assert second is not None
    second.release(heap_full=True)
    assert keeper._state_after_last_use(files) == HEAP_FULL


def test_a_killed_command_leaves_java_busy(files: KeeperFiles) -> None:
    lease = JavaLease.acquire(files)
    assert lease is not None
    lease.abandon()
    assert keeper._state_after_last_use(files) == BUSY


def test_files_are_private(files: KeeperFiles) -> None:
    assert files.info.stat().st_mode & 0o777 == 0o600
    assert files.keeper_lock.stat().st_mode & 0o777 == 0o600
    assert files.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'{"pid": 1}', b"\xff" * 50, b"{" * 5000])
def test_invalid_files_are_ignored(files: KeeperFiles, text: bytes) -> None:
    files.info.write_bytes(text)
    assert files.read() is None and JavaLease.acquire(files) is None


def test_a_link_is_not_followed(files: KeeperFiles, tmp_path: Path) -> None:
    files.info.rename(tmp_path / "elsewhere")
    files.info.symlink_to(tmp_path / "elsewhere")
    assert JavaLease.acquire(files) is None
    files.command_lock.symlink_to(tmp_path / "other")
    with pytest.raises(OSError):
        lock_file(files.command_lock)
    assert not (tmp_path / "other").exists()


def test_files_readable_by_others_are_not_trusted(files: KeeperFiles) -> None:
    files.info.chmod(0o644)
    assert JavaLease.acquire(files) is None


def test_files_of_another_user_are_not_trusted(
    files: KeeperFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    us = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: us + 1)
    assert files.read() is None and running_java.runtime_folder() is None


def test_files_of_a_dead_keeper_are_ignored(runtime: Path, listening: int) -> None:
    files = KeeperFiles(runtime, "a1b2")
    lock_file(files.keeper_lock).close()
    files.write(running(listening))
    assert JavaLease.acquire(files) is None
    assert not files.info.exists()


def test_java_that_does_not_respond_is_not_joined(runtime: Path) -> None:
    files = KeeperFiles(runtime, "a1b2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    with lock_file(files.keeper_lock):
        files.write(running(closed))
        assert JavaLease.acquire(files) is None
        lock_file(files.command_lock).close()  # the lock is free


def test_java_needs_a_private_folder_to_keep_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "flowdiag").mkdir(mode=0o755)
    (tmp_path / "flowdiag").chmod(0o755)
    assert running_java.runtime_folder() is None
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    (tmp_path / "file").touch()
    monkeypatch.setenv("FLOWDIAG_CACHE_DIR", str(tmp_path / "file"))
    assert running_java.runtime_folder() is None and running_java.all_keeper_files() == []


def test_each_set_up_has_its_own_keeper(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(properties: Mapping[str, str], heap: int, release: str) -> str:
        java = Java(
            home=tmp_path, executable=tmp_path / "java", major=17, origin="PATH", release=release
        )
        files = keeper_files_for(java, properties, heap)
        assert files is not None
        return files.key

    keys = [
        key({"spark.master": "local[2]"}, 1 << 30, "17"),
        key({"spark.master": "local[4]"}, 1 << 30, "17"),
        key({"spark.master": "local[2]"}, 2 << 30, "17"),
        key({"spark.master": "local[2]"}, 1 << 30, "21"),
    ]
    assert len(set(keys)) == 4
    # `flowdiag` and `python -m flowdiag` start the same interpreter by different names.
    monkeypatch.setattr(sys, "executable", f"{sys.executable}3")
    assert keys[0] == key({"spark.master": "local[2]"}, 1 << 30, "17")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert keys[0] != key({"spark.master": "local[2]"}, 1 << 30, "17")


class StillNeeded(Exception):
    """Raised if the keeper would continue to run."""


def run_checks(
    files: KeeperFiles, monkeypatch: pytest.MonkeyPatch, *, checks: int, idle_s: float = 900
) -> None:
    """Make the keeper check this many times. Only its pauses advance the clock."""
    now = 0.0

    test_thread, sleep = threading.current_thread(), time.sleep

    def pause(seconds: float) -> None:
        nonlocal now, checks
        if threading.current_thread() is not test_thread:  # Py4J's thread of another test
            sleep(seconds)
            return
        now += seconds
        checks -= 1
        if checks < 0:
            raise StillNeeded

    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    java = files.read()
    assert java is not None
    java = msgspec.structs.replace(java, idle_s=idle_s)
    files.write(java)
    with subprocess.Popen(["sleep", "60"]) as process:
        jvm = Jvm(files.folder)
        jvm.process = process
        try:
            keeper._wait_until_unneeded(files, java, jvm)
        finally:
            process.kill()


def test_the_keeper_ends_when_idle(files: KeeperFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    run_checks(files, monkeypatch, checks=20, idle_s=8)
    with pytest.raises(StillNeeded):
        run_checks(files, monkeypatch, checks=10, idle_s=8)


def test_the_keeper_waits_for_a_command_in_progress(
    files: KeeperFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = JavaLease.acquire(files)
    with pytest.raises(StillNeeded):
        run_checks(files, monkeypatch, checks=100, idle_s=8)
    assert lease is not None
    lease.abandon()


def test_the_system_clock_does_not_matter(
    files: KeeperFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with pytest.raises(StillNeeded):
        run_checks(files, monkeypatch, checks=10)


@pytest.mark.parametrize("how", ["gone", "other", "busy", "memory", "java"])
def test_the_keeper_ends_at_once(
    files: KeeperFiles, monkeypatch: pytest.MonkeyPatch, how: str, listening: int
) -> None:
    if how == "busy":
        lease = JavaLease.acquire(files)
        assert lease is not None
        lease.abandon()
    if how == "memory":
        monkeypatch.setattr(keeper, "free_memory_share", lambda: 0.01)
    if how == "java":
        monkeypatch.setattr(subprocess.Popen, "poll", lambda self: 1)
    if how in ("gone", "other"):
        monkeypatch.setattr(
            KeeperFiles, "read", _changes_after_first(files, None if how == "gone" else running(1))
        )
    run_checks(files, monkeypatch, checks=2)


def _changes_after_first(files: KeeperFiles, then: RunningJava | None) -> object:
    answers = iter([files.read()])
    return lambda self: next(answers, then)


def test_free_memory_is_read_from_the_system(tmp_path: Path) -> None:
    assert free_memory_share(tmp_path) == 1.0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable:  250 kB\n")
    assert free_memory_share(tmp_path) == 0.25


def flowdiag(*arguments: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flowdiag", *arguments]
    return subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the environment of a user with a separate runtime folder."""
    environ = {key: value for key, value in os.environ.items() if key != "CI"}
    environ |= {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "FLOWDIAG_WARM": "never"}
    environ |= {"FLOWDIAG_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "run").mkdir(mode=0o700)
    try:
        yield environ
    finally:
        assert flowdiag("warm", "--stop", environ=environ).returncode == 0


def running_now(tmp_path: Path) -> RunningJava | None:
    path = next((tmp_path / "run" / "flowdiag").glob("session-*.json"), None)
    return msgspec.json.decode(path.read_bytes(), type=RunningJava) if path else None


def is_running(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]
    return False


@pytest.mark.application
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.full
def test_the_next_command_joins_and_reports_the_same(
    environ: dict[str, str], tmp_path: Path
) -> None:
    how = ("checkpoints", RECORDING, "--format", "json")
    alone = flowdiag(*how, environ=environ)
    assert running_now(tmp_path) is None
    first = flowdiag(*how, "--stay", "5m", environ=environ)
    java = running_now(tmp_path)
    assert java is not None and is_running(java.java_pid)
    second = flowdiag(*how, "-v", environ=environ)
    assert "joined the session" in second.stderr
    assert alone.returncode == first.returncode == second.returncode == 1
    assert alone.stdout == first.stdout == second.stdout
    status = flowdiag("warm", "--status", environ=environ).stdout
    assert f"Java {java.java_pid} has been running" in status
    assert "it ends 5 min after its last use" in status
    in_ci = flowdiag(*how, "-v", environ=environ | {"CI": "1"})
    assert "joined" not in in_ci.stderr and in_ci.stdout == alone.stdout

    # A command that starts while Java is in use gets its own session.
    files = KeeperFiles(tmp_path / "run" / "flowdiag", next(iter(_keys(tmp_path))))
    with lock_file(files.command_lock):
        busy = flowdiag(*how, "-v", environ=environ)
    assert "joined" not in busy.stderr and busy.stdout == alone.stdout

    # The keeper is killed during a query: the command repeats the diagnosis in its own session.
    command = subprocess.Popen(
        [sys.executable, "-m", "flowdiag", *how], env=environ, stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while keeper._state_after_last_use(files) is not None and time.monotonic() < until:
        time.sleep(0.01)  # until the command has joined
    time.sleep(0.6)
    os.kill(java.pid, signal.SIGKILL)
    output, _ = command.communicate(timeout=120)
    assert command.returncode == 1 and json.loads(output) == json.loads(alone.stdout)
    until = time.monotonic() + 20
    while is_running(java.java_pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not is_running(java.java_pid)


def _keys(tmp_path: Path) -> list[str]:
    paths = (tmp_path / "run" / "flowdiag").glob("session-*.json")
    return [path.stem.removeprefix("session-") for path in paths]
