"""A Java that stays after a command: who may join it, and that nobody ever waits for it or fails by it."""

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

from flowdiag.cli.spark import keeper, kept
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.jvm import Jvm
from flowdiag.cli.spark.kept import BUSY, IDLE, WORN, Joined, Kept, Place, hold, place_for
from flowdiag.parsers.machine import free_memory_share

RECORDING = "fixtures/recordings/flink/1.20.5/hot-key/hot-key.tar.zst"
posix = pytest.mark.skipif(os.name != "posix", reason="Java stays on Linux and macOS only")
pytestmark = posix


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = kept.runtime_folder()
    assert folder == tmp_path / "flowdiag"
    return folder


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def place(runtime: Path, listening: int) -> Iterator[Place]:
    """What a living keeper leaves for others, with something that listens in the place of Java."""
    place = Place(runtime, "a1b2")
    with hold(place.alive):
        place.write(said(listening))
        yield place


def said(port: int) -> Kept:
    return Kept(
        pid=1, java_pid=2, port=port, secret="s", folder="/", idle_s=900, started_s=time.time()
    )


def test_one_command_at_a_time(place: Place) -> None:
    first = Joined.at(place)
    assert first is not None and first.kept.secret == "s"
    assert Joined.at(place) is None
    assert keeper._use(place) is None
    first.give_back()
    first.give_back()
    assert keeper._use(place) == IDLE
    second = Joined.at(place)
    assert second is not None
    second.give_back(worn=True)
    assert keeper._use(place) == WORN


def test_a_command_that_was_killed_leaves_it_busy(place: Place) -> None:
    joined = Joined.at(place)
    assert joined is not None
    joined.abandon()
    assert keeper._use(place) == BUSY


def test_files_are_for_the_user_alone(place: Place) -> None:
    assert place.said.stat().st_mode & 0o777 == 0o600
    assert place.alive.stat().st_mode & 0o777 == 0o600
    assert place.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'{"pid": 1}', b"\xff" * 50, b"{" * 5000])
def test_garbage_is_no_keeper(place: Place, text: bytes) -> None:
    place.said.write_bytes(text)
    assert place.read() is None and Joined.at(place) is None


def test_a_link_is_not_followed(place: Place, tmp_path: Path) -> None:
    place.said.rename(tmp_path / "elsewhere")
    place.said.symlink_to(tmp_path / "elsewhere")
    assert Joined.at(place) is None
    place.use.symlink_to(tmp_path / "other")
    with pytest.raises(OSError):
        hold(place.use)
    assert not (tmp_path / "other").exists()


def test_what_others_may_read_is_not_trusted(place: Place) -> None:
    place.said.chmod(0o644)
    assert Joined.at(place) is None


def test_what_somebody_else_wrote_is_not_trusted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    us = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: us + 1)
    assert place.read() is None and kept.runtime_folder() is None


def test_a_dead_keeper_is_no_keeper(runtime: Path, listening: int) -> None:
    place = Place(runtime, "a1b2")
    hold(place.alive).close()
    place.write(said(listening))
    assert Joined.at(place) is None
    assert not place.said.exists()


def test_java_that_does_not_answer_is_not_joined(runtime: Path) -> None:
    place = Place(runtime, "a1b2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = server.getsockname()[1]
    with hold(place.alive):
        place.write(said(closed))
        assert Joined.at(place) is None
        hold(place.use).close()  # nobody holds it


def test_without_a_private_folder_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "flowdiag").mkdir(mode=0o755)
    (tmp_path / "flowdiag").chmod(0o755)
    assert kept.runtime_folder() is None
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    (tmp_path / "file").touch()
    monkeypatch.setenv("FLOWDIAG_CACHE_DIR", str(tmp_path / "file"))
    assert kept.runtime_folder() is None and kept.places() == []


def test_another_set_up_has_another_place(runtime: Path, tmp_path: Path) -> None:
    def key(properties: Mapping[str, str], heap: int, release: str) -> str:
        java = Java(
            home=tmp_path, executable=tmp_path / "java", major=17, origin="PATH", release=release
        )
        place = place_for(java, properties, heap)
        assert place is not None
        return place.key

    keys = [
        key({"spark.master": "local[2]"}, 1 << 30, "17"),
        key({"spark.master": "local[4]"}, 1 << 30, "17"),
        key({"spark.master": "local[2]"}, 2 << 30, "17"),
        key({"spark.master": "local[2]"}, 1 << 30, "21"),
    ]
    assert len(set(keys)) == 4
    assert keys[0] == key({"spark.master": "local[2]"}, 1 << 30, "17")


class Ended(Exception):
    """The keeper would still go on."""


def watched(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, looks: int, idle_s: float = 900
) -> None:
    """Let the keeper look so often, on a clock that goes on by its pause only."""
    now = 0.0

    ours, sleep = threading.current_thread(), time.sleep

    def pause(seconds: float) -> None:
        nonlocal now, looks
        if threading.current_thread() is not ours:  # Py4J's, where another test left a Java
            sleep(seconds)
            return
        now += seconds
        looks -= 1
        if looks < 0:
            raise Ended

    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    said = place.read()
    assert said is not None
    said = msgspec.structs.replace(said, idle_s=idle_s)
    place.write(said)
    with subprocess.Popen(["sleep", "60"]) as process:
        jvm = Jvm(place.folder)
        jvm.process = process
        try:
            keeper._watch(place, said, jvm)
        finally:
            process.kill()


def test_the_keeper_ends_when_nobody_asks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    watched(place, monkeypatch, looks=20, idle_s=8)
    with pytest.raises(Ended):
        watched(place, monkeypatch, looks=10, idle_s=8)


def test_the_keeper_waits_for_whoever_uses_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = Joined.at(place)
    with pytest.raises(Ended):
        watched(place, monkeypatch, looks=100, idle_s=8)
    assert joined is not None
    joined.abandon()


def test_the_clock_of_the_machine_does_not_matter(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    with pytest.raises(Ended):
        watched(place, monkeypatch, looks=10)


@pytest.mark.parametrize("how", ["gone", "other", "busy", "memory", "java"])
def test_the_keeper_ends_at_once(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str, listening: int
) -> None:
    if how == "busy":
        joined = Joined.at(place)
        assert joined is not None
        joined.abandon()
    if how == "memory":
        monkeypatch.setattr(keeper, "free_memory_share", lambda: 0.01)
    if how == "java":
        monkeypatch.setattr(subprocess.Popen, "poll", lambda self: 1)
    if how in ("gone", "other"):
        monkeypatch.setattr(
            Place, "read", _changes_after_first(place, None if how == "gone" else said(1))
        )
    watched(place, monkeypatch, looks=2)


def _changes_after_first(place: Place, then: Kept | None) -> object:
    answers = iter([place.read()])
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
    """That of a user with a runtime folder of his own; nothing stays behind."""
    environ = {key: value for key, value in os.environ.items() if key != "CI"}
    environ |= {"XDG_RUNTIME_DIR": str(tmp_path / "run"), "FLOWDIAG_WARM": "never"}
    environ |= {"FLOWDIAG_CACHE_DIR": str(tmp_path / "cache")}
    (tmp_path / "run").mkdir(mode=0o700)
    try:
        yield environ
    finally:
        assert flowdiag("warm", "--stop", environ=environ).returncode == 0


def kept_now(tmp_path: Path) -> Kept | None:
    path = next((tmp_path / "run" / "flowdiag").glob("session-*.json"), None)
    return msgspec.json.decode(path.read_bytes(), type=Kept) if path else None


def lives(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]
    return False


@pytest.mark.application
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_the_next_command_joins_and_says_the_same(environ: dict[str, str], tmp_path: Path) -> None:
    how = ("checkpoints", RECORDING, "--format", "json")
    alone = flowdiag(*how, environ=environ)
    assert kept_now(tmp_path) is None
    first = flowdiag(*how, "--stay", "5m", environ=environ)
    there = kept_now(tmp_path)
    assert there is not None and lives(there.java_pid)
    second = flowdiag(*how, "-v", environ=environ)
    assert "joined the session" in second.stderr
    assert alone.returncode == first.returncode == second.returncode == 1
    assert alone.stdout == first.stdout == second.stdout
    said = flowdiag("warm", "--status", environ=environ).stdout
    assert f"Java {there.java_pid} stays" in said and "ends 5 min after its last use" in said
    in_ci = flowdiag(*how, "-v", environ=environ | {"CI": "1"})
    assert "joined" not in in_ci.stderr and in_ci.stdout == alone.stdout

    # Whoever comes while it is in use starts a session of his own.
    place = Place(tmp_path / "run" / "flowdiag", next(iter(_keys(tmp_path))))
    with hold(place.use):
        busy = flowdiag(*how, "-v", environ=environ)
    assert "joined" not in busy.stderr and busy.stdout == alone.stdout

    # Its keeper is killed in the middle of a query: the command does what it does without one.
    running = subprocess.Popen(
        [sys.executable, "-m", "flowdiag", *how], env=environ, stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while keeper._use(place) is not None and time.monotonic() < until:
        time.sleep(0.01)  # until it has joined
    time.sleep(0.6)
    os.kill(there.pid, signal.SIGKILL)
    told, _ = running.communicate(timeout=120)
    assert running.returncode == 1 and json.loads(told) == json.loads(alone.stdout)
    until = time.monotonic() + 20
    while lives(there.java_pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not lives(there.java_pid)


def _keys(tmp_path: Path) -> list[str]:
    paths = (tmp_path / "run" / "flowdiag").glob("session-*.json")
    return [path.stem.removeprefix("session-") for path in paths]
