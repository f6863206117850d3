"""Checks that every source a user may pass is found once, with a reason if it is not read."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import socket
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdiag.parsers.discover import Discovery, discover
from flowdiag.parsers.envelopes.objects import unwrap_json
from flowdiag.parsers.notes import InputNote
from flowdiag.parsers.source import Source, open_source, stream_error
from flowdiag.parsers.sources import codecs
from flowdiag.parsers.sources.remote import BACKENDS

LINES = (
    "2026-01-01 00:00:01,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
    " [] - Triggering checkpoint 1 (type=CHECKPOINT) @ 1767225601000 for job"
    " 0123456789abcdef0123456789abcdef.\n"
    "2026-01-01 00:00:02,000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
    " [] - Completed checkpoint 1 for job 0123456789abcdef0123456789abcdef (10 bytes).\n"
)
LOG = LINES.encode()


def shown(remarks: Iterable[InputNote]) -> tuple[str, ...]:
    """Return remarks as users see them."""
    return tuple(map(str, remarks))


def find(*paths: Path | str, **options: io.BytesIO) -> Discovery:
    return discover([str(path) for path in paths], **options)


def only(*paths: Path | str) -> Source:
    found = find(*paths)
    assert len(found.sources) == 1, found
    return found.sources[0]


def content(source: Source) -> bytes:
    with open_source(source) as stream:
        return stream.read()


def names(found: Discovery, top: Path) -> list[str]:
    return [os.path.relpath(source.name, top) for source in found.sources]


# -- files and folders -----------------------------------------------------------------------


def test_a_plain_log(tmp_path: Path) -> None:
    path = tmp_path / "jm.log"
    path.write_bytes(LOG)
    found = find(path)
    assert found.warnings == found.errors == ()
    assert found.sources == (
        Source(
            index=0,
            name=str(path),
            path=str(path),
            member=None,
            codec="none",
            encoding="utf-8",
            size=len(LOG),
            kind="log",
            engine="flink",
            role="jobmanager",
            group=str(path),
            url=None,
            splittable=True,
            reason=None,
        ),
    )
    stream = open_source(found.sources[0])
    buffer = bytearray(1 << 16)
    assert stream.readinto(buffer) == len(LOG)  # type: ignore[attr-defined]
    assert stream.seek(10) == 10
    assert stream_error(stream) is None
    stream.close()


def test_folders_are_walked_in_order_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b/2.log", "b/1.log", "a.log", ".git/x.log", "b/.1.log.swp", "c/d/e/3.log"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(LOG + name.encode())
    found = find(tmp_path)
    assert names(found, tmp_path) == ["a.log", "b/1.log", "b/2.log", "c/d/e/3.log"]
    assert [source.index for source in found.sources] == [0, 1, 2, 3]
    assert found.hidden == 2
    assert [s.name for s in find(tmp_path / ".git").sources] == [str(tmp_path / ".git/x.log")]


def test_links_and_cycles_give_each_real_file_once(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "x.log").write_bytes(LOG)
    (folder / "again").symlink_to(tmp_path)
    (folder / "self").symlink_to(folder / "self")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    (folder / "y.log").symlink_to(folder / "x.log")
    os.link(folder / "x.log", folder / "z.log")
    found = find(tmp_path, folder, folder / "x.log", str(folder) + "/../a/x.log")
    reasons = {os.path.basename(s.name): s.reason for s in found.sources}
    assert reasons == {
        "gone": "dangling symbolic link",
        "self": "too many levels of symbolic links",
        "x.log": None,
    }
    assert len(found.warnings) == 2 and not found.errors


def test_globs(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.txt", "d/e.log", "[x].log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(LOG + name.encode())
    assert names(find(tmp_path / "?.log"), tmp_path) == ["a.log", "b.log"]
    everything = ["[x].log", "a.log", "b.log", "d/e.log"]
    assert names(find(tmp_path / "**" / "*.log"), tmp_path) == everything
    assert names(find(tmp_path / "[x].log"), tmp_path) == ["[x].log"]
    found = find(tmp_path / "*.nothing")
    assert shown(found.errors) == (f"{tmp_path}/*.nothing: no file matches",)


def test_missing_paths(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(LOG)
    kinds = ", ".join(sorted(BACKENDS))
    found = find(tmp_path / "nope", tmp_path / "x.log", "what://bucket/x.log", "a\0b", "")
    assert len(found.sources) == 1
    assert shown(found.errors) == (
        f"{tmp_path}/nope: no such file or directory",
        f"what://bucket/x.log: unsupported URL scheme; supported are {kinds}",
        "a\ufffdb: no such file or directory",
        ": no such file or directory",
    )


def test_folders_without_logs_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.class").write_bytes(b"\xca\xfe\xba\xbe\0\0\0\x34" * 10)
    found = find(tmp_path / "empty", tmp_path / "other")
    assert shown(found.warnings) == (f"{tmp_path}/empty: contains no files",)
    assert found.unread == ((f"{tmp_path}/other", range(1)),)
    assert found.errors == ()


def test_special_files_are_named_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    short = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as sock:
        os.chdir(tmp_path)
        sock.bind("s")
    found = find(tmp_path, "/dev/null")
    reasons = {source.name: source.reason for source in found.sources}
    assert reasons == {
        str(tmp_path / "pipe"): "a named pipe: redirect it to standard input (`-`)",
        str(short): "a socket",
        "/dev/null": "a device",
    }
    assert shown(found.errors) == ("/dev/null: a device",)


def test_files_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / "b.log").write_bytes(LOG)

    class Forbidding(codecs.PlainFile):
        def __init__(self, path: str, *, expected: int | None = None) -> None:
            if path.endswith("a.log"):
                raise PermissionError(13, "Permission denied", path)
            super().__init__(path, expected=expected)

    monkeypatch.setattr(codecs, "PlainFile", Forbidding)
    found = find(tmp_path)
    assert [source.reason for source in found.sources] == ["permission denied", None]
    assert shown(found.warnings) == (f"{tmp_path}/a.log: permission denied",)
    assert shown(find(tmp_path / "a.log").errors) == (f"{tmp_path}/a.log: permission denied",)


def test_folders_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "x.log").write_bytes(LOG)
    listdir = os.listdir

    def forbidding(path: str) -> list[str]:
        if path.endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", forbidding)
    found = find(tmp_path)
    assert names(found, tmp_path) == ["x.log"]
    assert shown(found.warnings) == (f"{tmp_path}/secret: permission denied",)


def test_a_file_that_vanishes_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(LOG)
    source = only(path)
    path.unlink()
    with pytest.raises(OSError):
        open_source(source)


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m\nb.log").write_bytes(LOG)
    with open(os.fsencode(tmp_path) + b"/\xff.log", "wb") as file:
        file.write(LOG + b"!")
    shown = [os.path.basename(source.name) for source in find(tmp_path).sources]
    assert shown == ["a\ufffd[31m\ufffdb.log", "\ufffd.log"]
    for source in find(tmp_path).sources:
        assert content(source).startswith(LOG)
        source.name.encode()


def test_rolled_files_share_a_group(tmp_path: Path) -> None:
    for name in ("x.log", "x.log.1", "x.log.2.gz", "x-2026-01-01-3.log.gz", "y.1", "y", "z.1.log"):
        (tmp_path / name).write_bytes(LOG + name.encode())
    groups = {os.path.basename(s.name): os.path.basename(s.group) for s in find(tmp_path).sources}
    assert groups == {
        "x.log": "x.log",
        "x.log.1": "x.log",
        "x.log.2.gz": "x.log",
        "x-2026-01-01-3.log.gz": "x.log",
        "y": "y",
        "y.1": "y",
        "z.1.log": "z.1.log",
    }


# -- standard input --------------------------------------------------------------------------


def test_standard_input_is_spooled_privately(tmp_path: Path) -> None:
    found = find("-", "-", stdin=io.BytesIO(gzip.compress(LOG)))
    source = found.sources[0]
    assert len(found.sources) == 1
    assert (source.name, source.group, source.codec, source.kind) == ("-", "-", "gzip", "log")
    assert content(source) == LOG
    folder = os.path.dirname(source.path)
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(source.path).st_mode) == 0o600


def test_empty_standard_input() -> None:
    source = find("-", stdin=io.BytesIO()).sources[0]
    assert (source.kind, source.reason) == ("not-read", "empty file")


def test_closed_standard_input() -> None:
    stream = io.BytesIO()
    stream.close()
    found = find("-", stdin=stream)
    assert found.sources == ()
    assert str(found.errors[0]).startswith("standard input: ")


def test_the_private_folder_is_removed_at_the_end() -> None:
    code = (
        "import os, sys\n"
        "from flowdiag.parsers.discover import discover\n"
        "source = discover(['-']).sources[0]\n"
        "if os.fork() == 0:\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "assert os.path.exists(source.path)\n"
        "print(os.path.dirname(source.path))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], input=LOG, capture_output=True, check=True
    )
    folder = done.stdout.decode().strip()
    assert os.path.basename(folder).startswith("flowdiag-")
    assert not os.path.exists(folder)


def test_pipes_of_the_shell_are_read() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with open(writing, "wb") as pipe:
            pipe.write(LOG)

    writer = threading.Thread(target=write)
    writer.start()
    source = only(f"/dev/fd/{reading}")
    writer.join()
    os.close(reading)
    assert source.kind == "log"
    assert content(source) == LOG


# -- compression and encoding ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("gzip", gzip.compress(LOG)),
        ("bz2", bz2.compress(LOG)),
        ("xz", lzma.compress(LOG)),
        ("zstd", zstandard.compress(LOG) * 2),
    ],
)
def test_compressed_logs_whatever_their_name(tmp_path: Path, codec: str, packed: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(packed)
    source = only(path)
    assert (source.codec, source.kind, source.role) == (codec, "log", "jobmanager")
    assert not source.splittable
    assert content(source) == LOG * (2 if codec == "zstd" else 1)


def test_a_log_that_only_claims_to_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "x.log.gz"
    path.write_bytes(LOG)
    source = only(path)
    assert (source.codec, source.kind, source.splittable) == ("none", "log", True)


def test_truncated_gzip_gives_its_readable_part_and_an_error(tmp_path: Path) -> None:
    many = b"".join(b"2026-01-01 00:00:01,000 INFO  X - line %d\n" % i for i in range(9000))
    path = tmp_path / "x.log.gz"
    packed = gzip.compress(LOG + many)
    path.write_bytes(packed[: len(packed) // 2])
    source = only(path)
    assert source.kind == "log"
    with open_source(source) as stream:
        data = stream.read()
        assert (LOG + many).startswith(data) and len(data) > len(LOG)
        assert stream_error(stream) == f"truncated gzip after {len(data)} bytes"
    path.write_bytes(packed[:8])
    assert only(path).reason == "truncated gzip after 0 bytes"


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_wide_encodings(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.log"
    path.write_bytes((LINES + "äöü 中文\n").encode(name))
    source = only(path)
    assert source.encoding.startswith(name)
    assert (source.kind, source.role, source.splittable) == ("log", "jobmanager", False)
    assert content(source).decode() == LINES + "äöü 中文\n"


def test_wide_encoding_within_gzip(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(gzip.compress(LINES.encode("utf-16")))
    source = only(path)
    assert (source.codec, source.encoding) == ("gzip", "utf-16-le")
    assert content(source) == LOG


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"\xef\xbb\xbf" + LOG, "utf-8"),
        (LOG + "Jürgen\n".encode("latin-1") * 3, "latin-1"),
        (LOG + "中文 Jürgen\n".encode() + b"\xff\n", "utf-8"),
        (LOG + b"\0\0\0" + LOG, "utf-8"),
        (bytes(5000) + LOG * 3, "utf-8"),
        (LOG.replace(b"\n", b"\r\n"), "utf-8"),
        (b"\x1b[32m" + LOG.replace(b"INFO", b"\x1b[1mINFO\x1b[0m"), "utf-8"),
    ],
)
def test_undecodable_bytes_are_kept(tmp_path: Path, data: bytes, encoding: str) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    source = only(path)
    assert (source.kind, source.encoding, source.splittable) == ("log", encoding, True)
    assert content(source) == data


def test_a_shrinking_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(LOG * 3)
    source = only(path)
    path.write_bytes(LOG)
    with open_source(source) as stream:
        assert stream.read() + stream.read() == LOG
        assert stream_error(stream) == (
            f"shrank from {3 * len(LOG)} to {len(LOG)} bytes while it was read"
        )


def test_a_large_log_that_begins_with_null_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        file.seek(3_000_000)
        file.write(LOG * 2000)
    source = only(path)
    assert (source.kind, source.role) == ("log", "jobmanager")


def test_one_enormous_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        file.write(LOG)
        for _ in range(100):
            file.write(b"x" * 1_000_000)
    source = only(path)
    assert (source.kind, source.size) == ("log", len(LOG) + 100_000_000)


# -- containers ------------------------------------------------------------------------------


def make_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as container:
        for name, data in members.items():
            container.writestr(name, data)
    return path


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as container:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            container.addfile(info, io.BytesIO(data))
    return path


MEMBERS = {
    "logs/tm.log.1.gz": gzip.compress(b"2026-01-01 00:00:01,000 INFO  a.TaskExecutor [] - x\n" * 2),
    "logs/jm.log": LOG,
    "__MACOSX/._jm.log": b"junk",
    "logs/.hidden": b"junk",
    "../../evil.log": LOG + b"evil",
    "empty.log": b"",
}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_members_of_zip_archives(tmp_path: Path, method: int) -> None:
    path = make_zip(tmp_path / "logs.bin", MEMBERS, method)
    found = find(path)
    assert [
        (s.name.split("!")[1], s.member, s.kind, s.role, s.codec, s.size) for s in found.sources
    ] == [
        ("../../evil.log", "../../evil.log", "log", "jobmanager", "none", len(LOG) + 4),
        ("empty.log", "empty.log", "not-read", "unknown", "none", 0),
        ("logs/jm.log", "logs/jm.log", "log", "jobmanager", "none", len(LOG)),
        (
            "logs/tm.log.1.gz",
            "logs/tm.log.1.gz",
            "log",
            "taskmanager",
            "gzip",
            len(MEMBERS["logs/tm.log.1.gz"]),
        ),
    ]
    assert content(found.sources[2]) == LOG
    assert content(found.sources[3]).count(b"TaskExecutor") == 2
    assert found.sources[3].group == f"{path}!logs/tm.log"
    assert not any(source.splittable for source in found.sources)
    assert found.hidden == 2
    assert not (tmp_path.parent / "evil.log").exists()


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
def test_members_of_tar_archives(tmp_path: Path, mode: str) -> None:
    path = make_tar(tmp_path / "logs.bin", MEMBERS, mode)
    found = find(path)
    assert [(s.name.split("!")[1], s.kind, s.role, s.codec) for s in found.sources] == [
        ("../../evil.log", "log", "jobmanager", "none"),
        ("empty.log", "not-read", "unknown", "none"),
        ("logs/jm.log", "log", "jobmanager", "none"),
        ("logs/tm.log.1.gz", "log", "taskmanager", "gzip"),
    ]
    assert content(found.sources[2]) == LOG
    assert found.sources[2].splittable
    assert found.sources[3].group == f"{path}!logs/tm.log"
    assert found.warnings == ()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_binary_members_of_tar_archives_are_not_copied(tmp_path: Path, mode: str) -> None:
    dump = b"JAVA PROFILE 1.0.2\0" + bytes(100_000)
    members = {"a.hprof": dump, "b.log": LOG, "c": bytes(range(20)) * 9}
    path = make_tar(tmp_path / "x.tar", members, mode)
    found = find(path)
    assert {s.name.split("!")[1]: (s.reason, s.path == str(path)) for s in found.sources} == {
        "a.hprof": ("Java heap dump", True),
        "b.log": (None, False),
        "c": ("binary file", True),
    }


def test_overwritten_members_count_once(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as container:
        container.writestr("a.log", b"2026-01-01 00:00:01 INFO old\n")
        with pytest.warns(UserWarning, match="Duplicate"):
            container.writestr("a.log", LOG)
    assert content(only(path)) == LOG
    path = tmp_path / "x.tar"
    make_tar(path, {"a.log": b"2026-01-01 00:00:01 INFO old\n"})
    with tarfile.open(path, "a") as archive:
        info = tarfile.TarInfo("a.log")
        info.size = len(LOG)
        archive.addfile(info, io.BytesIO(LOG))
    assert content(only(path)) == LOG


def test_copied_members_keep_their_folders_under_safe_names(tmp_path: Path) -> None:
    names = ["a.log", "rest/a.log", "rest/b c.log", "../a.log", "rest/-a.log", "x/rest/a.log"]
    path = make_tar(tmp_path / "x.tar", dict.fromkeys(names, LOG))
    copies = {
        s.name.split("!")[1]: Path(s.path) for s in (*find(path).sources, *find(path).sources)
    }
    assert set(copies) == set(names) and len(set(copies.values())) == len(names)
    private = {copy.parents[1] for copy in copies.values()}
    assert len(private) == 1 and private.pop().name.startswith("flowdiag-")
    siblings = [name for name in names if copies[name].parent == copies["rest/a.log"].parent]
    assert siblings == ["rest/a.log", "rest/b c.log", "rest/-a.log"]
    kept = [name for name in names if copies[name].name == "a.log"]
    assert kept == ["a.log", "rest/a.log", "../a.log", "x/rest/a.log"]
    other = Path(only(make_tar(tmp_path / "y.tar", {"rest/a.log": LOG})).path)
    assert other.parent != copies["rest/a.log"].parent


def test_links_and_devices_in_tar_archives_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as container:
        for kind, name in ((tarfile.SYMTYPE, "a"), (tarfile.CHRTYPE, "b"), (tarfile.DIRTYPE, "c")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            container.addfile(info)
    source = only(path)
    assert (source.kind, source.reason) == ("not-read", "empty tar archive")


def test_containers_within_containers(tmp_path: Path) -> None:
    inner = make_tar(tmp_path / "inner.tgz", {"x/jm.log": LOG}, "w:gz")
    middle = make_zip(tmp_path / "middle.zip", {"inner.tgz": inner.read_bytes()})
    outer = make_tar(tmp_path / "outer.tar", {"middle.zip": middle.read_bytes(), "y.log": LOG})
    inner.unlink()
    middle.unlink()
    found = find(tmp_path)
    assert [source.name for source in found.sources] == [
        f"{outer}!middle.zip!inner.tgz!x/jm.log",
        f"{outer}!y.log",
    ]
    assert all(content(source) == LOG for source in found.sources)


def test_nesting_is_limited(tmp_path: Path) -> None:
    data = LOG
    for i in range(6):
        data = make_zip(tmp_path / "x.zip", {f"{i}.zip": data}).read_bytes()
    source = only(tmp_path / "x.zip")
    assert source.kind == "not-read"
    assert source.reason is not None and "nested too deeply" in source.reason


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_truncated_tar_archive_gives_its_readable_part(tmp_path: Path, mode: str) -> None:
    noise = random.Random(1).randbytes(40_000).hex().encode()
    large = LOG + b"".join(b"\n%b" % noise[i : i + 99] for i in range(0, len(noise), 99))
    path = make_tar(tmp_path / "x.tar", {"a.log": LOG, "b.log": large}, mode)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    found = find(path)
    assert [source.kind for source in found.sources] == ["log", "log"]
    assert content(found.sources[0]) == LOG
    rest = content(found.sources[1])
    assert large.startswith(rest) and len(rest) > len(large) // 2
    assert len(found.warnings) == 1 and "truncated" in found.warnings[0].text


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    share=st.floats(0, 1), byte=st.integers(0, 255), which=st.sampled_from(["zip", "tar", "tgz"])
)
def test_broken_containers_never_raise(tmp_path: Path, share: float, byte: int, which: str) -> None:
    path = tmp_path / f"x.{which}"
    if which == "zip":
        make_zip(path, MEMBERS)
    else:
        make_tar(path, MEMBERS, "w:gz" if which == "tgz" else "w")
    data = bytearray(path.read_bytes())
    data[int(share * (len(data) - 1))] = byte
    path.write_bytes(data)
    for source in find(path).sources:
        if source.kind != "not-read":
            content(source)
    path.write_bytes(data[: int(share * len(data))])
    for source in find(path).sources:
        if source.kind != "not-read":
            content(source)


class _Pipe(io.BytesIO):
    """A stream that cannot seek, so that zip writes sizes after the data."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("share", [0.6, 0.97])
def test_a_truncated_zip_archive_gives_its_readable_part(
    tmp_path: Path, streamed: bool, share: float
) -> None:
    noise = random.Random(1).randbytes(40_000).hex().encode()
    large = LOG + b"".join(b"\n%b" % noise[i : i + 99] for i in range(0, len(noise), 99))
    file = _Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as container:
        for name, data in {"logs/": b"", "logs/a.log": LOG, "b.log": large}.items():
            container.writestr(name, data)
    data = file.getvalue()
    path = tmp_path / "x.zip"
    path.write_bytes(data[: int(len(data) * share)])
    found = find(path)
    assert [source.name.split("!")[1] for source in found.sources] == ["b.log", "logs/a.log"]
    assert content(found.sources[1]) == LOG
    rest = content(found.sources[0])
    assert large.startswith(rest) and len(rest) > len(large) * (share - 0.1)
    assert shown(found.warnings) == (
        f"{path}: truncated zip archive; its first 2 members are read",
    )
    path.write_bytes(data[:20])
    assert only(path).reason == "damaged zip archive"


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.log": LOG}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for magic, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.find(magic) + at] |= 1
    path.write_bytes(data)
    assert only(path).reason == "encrypted: unpack it first"


def test_a_damaged_member_is_an_error_of_its_stream(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.log": LOG * 100}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[-300] ^= 1
    path.write_bytes(data)
    source = only(path)
    assert source.kind == "log"
    with open_source(source) as stream:
        assert len(stream.read()) == 100 * len(LOG)
        assert stream_error(stream) == f"damaged zip member after {100 * len(LOG)} bytes"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\n", "a/B.class": b"x"}, "Java archive"),
        ({"[Content_Types].xml": b"<x/>", "word/document.xml": b"<x/>"}, "office document"),
        ({}, "empty zip archive"),
    ],
)
def test_other_zip_files_are_one_entry(
    tmp_path: Path, members: dict[str, bytes], reason: str
) -> None:
    assert only(make_zip(tmp_path / "x", members)).reason == reason


# -- documents -------------------------------------------------------------------------------


def test_a_document_is_one_json_object_per_event(tmp_path: Path) -> None:
    first, second = LINES.splitlines()
    path = tmp_path / "loki.json"
    path.write_text(
        json.dumps(
            {
                "status": "success",
                "data": {
                    "resultType": "streams",
                    "result": [
                        {
                            "stream": {"pod": "jm-1"},
                            "values": [
                                ["1767225602000000000", second],
                                ["1767225601000000000", first],
                            ],
                        }
                    ],
                },
            }
        )
    )
    source = only(path)
    assert (source.kind, source.engine, source.role) == ("document", "flink", "jobmanager")
    assert not source.splittable
    lines = content(source).splitlines()
    events = [unwrap_json(line) for line in lines]
    assert [event and event.text for event in events] == [first, second]
    assert json.loads(lines[0]) == {
        "message": first,
        "timestamp_us": 1767225601000000,
        "process": "jm-1",
        "level": None,
        "logger": None,
        "thread": None,
    }


def test_a_document_damaged_after_discovery_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(LINES.splitlines()))
    source = only(path)
    assert source.kind == "document"
    path.write_text('["' + LINES)
    with open_source(source) as stream:
        assert stream.read() == ('["' + LINES).encode()
        assert stream_error(stream) == "damaged document: read as text"


def test_a_document_too_large_for_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowdiag.parsers.source.DOCUMENT_BYTES", 1000)
    monkeypatch.setattr("flowdiag.parsers.sniff.documents.DOCUMENT_BYTES", 300_000)
    path = tmp_path / "x.json"
    path.write_text(json.dumps([LINES] * 2000))
    reason = only(path).reason
    assert reason is not None and reason.startswith("a document of more than 0 MB: split it")
