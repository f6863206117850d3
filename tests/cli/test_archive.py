import os
import subprocess
import sys
from pathlib import Path

import pytest

from flowdiag.cli.spark import warm as warm_module
from flowdiag.cli.spark.archive import Archive, archive_for, archives, cache_folder
from flowdiag.cli.spark.java import Java
from flowdiag.cli.spark.warm import remove_archives, warm, warm_in_background
from flowdiag.parsers.errors import FlowdiagError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FLOWDIAG_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    folder.mkdir()
    return folder


def java(major: int, home: Path, release: str = "one build") -> Java:
    return Java(
        home=home, executable=home / "bin/java", major=major, origin="JAVA_HOME", release=release
    )


def expected(major: int, home: Path, jars: Path, release: str = "one", flag: str = "-X") -> Archive:
    archive = archive_for(java(major, home, release), [flag], jars)
    assert archive is not None
    return archive


def test_each_build_flag_and_pyspark_needs_its_own_archive(tmp_path: Path, jars: Path) -> None:
    one = expected(25, tmp_path, jars)
    assert expected(25, tmp_path, jars) == one
    assert expected(25, tmp_path, jars, release="two").path != one.path
    assert expected(25, tmp_path, jars, flag="-Y").path != one.path
    os.utime(jars, (1, 1))
    assert expected(25, tmp_path, jars).path != one.path


def test_java_25_uses_an_ahead_of_time_cache_and_older_java_a_class_archive(
    tmp_path: Path, jars: Path
) -> None:
    assert archive_for(java(21, tmp_path), [], jars) is None
    (tmp_path / "lib" / "server").mkdir(parents=True)
    (tmp_path / "lib" / "server" / "classes.jsa").touch()
    assert expected(21, tmp_path, jars).flags_to_use()[0].startswith("-XX:SharedArchiveFile=")
    assert expected(25, tmp_path, jars).flags_to_use()[0].startswith("-XX:AOTCache=")


@pytest.mark.skipif(os.name != "posix", reason="uses POSIX file modes")
def test_an_archive_writable_by_others_is_not_used(tmp_path: Path, jars: Path, cache: Path) -> None:
    archive = expected(25, tmp_path, jars)
    assert not archive.is_usable()
    archive.path.touch(mode=0o600)
    assert archive.is_usable()
    cache.chmod(0o777)
    assert not archive.is_usable()
    cache.chmod(0o700)
    archive.path.chmod(0o666)
    assert not archive.is_usable()


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root writes as root")
def test_every_user_uses_an_archive_of_root(
    tmp_path: Path, jars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the container image."""
    archive = expected(25, tmp_path, jars)
    archive.path.touch(mode=0o644)
    monkeypatch.setattr(os, "getuid", lambda: 10001)
    assert archive.is_usable()
    os.chown(archive.path, 4242, 0)
    assert not archive.is_usable()


def test_remove_deletes_only_archives_and_leftovers(cache: Path) -> None:
    for name in ("a.aot", "b.jsa", "c.aot.part"):
        (cache / name).write_bytes(b"12345")
    (cache / "notes.txt").touch()
    assert [path.name for path in archives()] == ["b.jsa", "a.aot"] or len(archives()) == 2
    assert remove_archives() == 15
    assert [path.name for path in cache.iterdir()] == ["notes.txt"]
    assert remove_archives() == 0


def test_a_relative_cache_home_is_ignored() -> None:
    environ = {"HOME": "/home/me", "XDG_CACHE_HOME": "relative"}
    assert "relative" not in str(cache_folder(environ))


def write_bytes(content: bytes) -> object:
    def train(flags: tuple[str, ...]) -> None:
        Path(flags[0].partition("=")[2]).write_bytes(content)

    return train


@pytest.fixture
def set_up(tmp_path: Path, jars: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Replace Java with a Java 25 whose training run writes a few bytes."""
    runtime = java(25, tmp_path)

    def usable(found_java: Java) -> Archive | None:
        archive = archive_for(found_java, [], jars)
        return archive if archive is not None and archive.is_usable() else None

    monkeypatch.setattr(warm_module, "find_java", lambda: runtime)
    monkeypatch.setattr(
        warm_module, "expected_archive", lambda found_java: archive_for(found_java, [], jars)
    )
    monkeypatch.setattr(warm_module, "usable_archive", usable)
    monkeypatch.setattr(warm_module, "_write_archive", write_bytes(b"classes"))
    return runtime


def test_warm_creates_an_archive_once(set_up: Java, cache: Path) -> None:
    first = warm()
    assert first.created
    assert first.size_bytes == 7
    assert not warm().created
    assert warm(force=True).created
    assert sorted(path.name for path in cache.iterdir()) == sorted([first.path.name, "lock"])


def test_warm_keeps_two_archives(set_up: Java, cache: Path) -> None:
    for number, name in enumerate(("old.aot", "older.jsa")):
        (cache / name).touch()
        os.utime(cache / name, (100 - number, 100 - number))
    result = warm()
    assert archives() == [result.path, cache / "old.aot"]


def test_a_training_run_that_writes_nothing_is_an_error(
    set_up: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_module, "_write_archive", lambda flags: None)
    with pytest.raises(FlowdiagError, match="wrote no archive"):
        warm()


@pytest.mark.skipif(os.name != "posix", reason="uses POSIX locks")
def test_a_second_process_waits_or_gives_up(set_up: Java, cache: Path) -> None:
    import fcntl

    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(FlowdiagError, match="another process"):
            warm(wait=False)
    assert warm(wait=False).created


def test_low_disk_space_is_reported_before_the_training_run(
    set_up: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_module, "_REQUIRED_SPACE_BYTES", 10**18)
    with pytest.raises(FlowdiagError, match="MB are free") as caught:
        warm()
    assert "FLOWDIAG_CACHE_DIR" in str(caught.value.hint)


@pytest.mark.parametrize("environ", [{"CI": "true"}, {}])
def test_no_archive_is_created_without_a_terminal(environ: dict[str, str]) -> None:
    # In the last case, standard error is not a terminal.
    assert not warm_in_background(environ)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Provide an interactive terminal, and the list of commands started on it."""
    commands: list[list[str]] = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **more: commands.append(command))
    return commands


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
def test_on_a_terminal_the_archive_is_created_once_in_the_background(
    set_up: Java, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not warm_in_background({"CI": "true"})
    assert started == []
    assert warm_in_background({})
    assert started[0][-2:] == ["-m", "flowdiag.cli.spark.warm"]
    warm()
    assert not warm_in_background({})
    assert len(started) == 1


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
def test_a_failed_attempt_is_not_retried_automatically(
    set_up: Java, cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda by: 0)

    def fail(flags: tuple[str, ...]) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(warm_module, "_write_archive", fail)
    assert warm_module._main() == 1
    assert not warm_in_background({})
    assert started == []
    monkeypatch.setattr(warm_module, "_write_archive", write_bytes(b"classes"))
    warm()  # an explicit request retries and removes the marker
    remove_archives()
    assert [path.name for path in cache.iterdir()] == ["lock"]
    assert warm_in_background({})


@pytest.mark.skipif(os.name != "posix", reason="uses POSIX locks")
def test_a_training_run_in_another_process_is_not_a_failure(
    set_up: Java, cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(os, "nice", lambda by: 0)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert warm_module._main() == 1
    assert warm_in_background({})


@pytest.mark.application
@pytest.mark.full
def test_the_java_of_the_extra_creates_and_uses_an_archive(tmp_path: Path) -> None:
    without = ("JAVA_HOME", "FLOWDIAG_CACHE_DIR")
    environ = {key: value for key, value in os.environ.items() if key not in without}
    environ["FLOWDIAG_CACHE_DIR"] = str(tmp_path)

    def flowdiag(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "flowdiag", *arguments]
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=280, check=False
        )

    made = flowdiag("warm")
    assert made.returncode == 0, made.stderr
    archive = next(path for path in tmp_path.iterdir() if path.suffix in (".aot", ".jsa"))
    assert archive.stat().st_size > 50_000_000
    recording = "fixtures/recordings/flink/1.20.5/hot-key/hot-key.tar.zst"
    used = flowdiag("checkpoints", recording, "-v", "--warm", "never")
    assert used.returncode == 1 and f"classes from {archive}" in used.stderr
