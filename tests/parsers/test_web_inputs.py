"""Inputs on web servers on loopback: with and without ranges, with and without a size, with TLS."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.sources.remote import sends_ranges
from flowdiag.parsers.split import parse_on_driver, plan_splits

pytestmark = [
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("aiohttp", "requests"))),
        reason="needs flowdiag[http]",
    ),
    pytest.mark.filterwarnings("default"),  # of the packages that are tested here
]
LINE = (
    "2026-01-31 18:43:{:02},001 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
    " [] - Checkpoint {} of job 7c7769847d333438dd9ce845d5a2d980 expired before completing.\n"
)
FILLER = b"2026-01-31 18:43:00,002 DEBUG a.B [] - " + b"x" * 100_000 + b"\n"
LINES = 2_000
# More than one request, with a record that is recognized at both ends.
LOG = b"".join(
    LINE.format(number % 60, number).encode() + (FILLER if number % 33 == 0 else b"")
    for number in range(LINES)
)
WITH_RANGES, WITHOUT, WITHOUT_SIZE, CUT_OFF = "with ranges", "without", "without a size", "cut off"
MISSING, FORBIDDEN = "missing", "forbidden"
STATUS = {MISSING: 404, FORBIDDEN: 403}


@contextmanager
def serving(manner: str, context: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[str]]]:
    """Serve the log in a given way, and yield the address and the list of requested ranges."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

        def do_HEAD(self) -> None:
            self._respond()

        def do_GET(self) -> None:
            part = self._respond()
            if manner == CUT_OFF:
                part = part[: len(part) // 2]
            try:
                self.wfile.write(part)
            except OSError:
                pass  # the client has read enough

        def _respond(self) -> bytes:
            data = gzip.compress(LOG, 1, mtime=0) if self.path.endswith(".gz") else LOG
            header = self.headers.get("Range", "")
            if self.command == "GET":
                requested.append(header)
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", header) if manner == WITH_RANGES else None
            self.send_response(STATUS.get(manner, 206 if span else 200))
            if span:
                begin, end = int(span[1]), min(int(span[2] or len(data)), len(data) - 1)
                self.send_header("Content-Range", f"bytes {begin}-{end}/{len(data)}")
                data = data[begin : end + 1]
            if manner == WITH_RANGES:
                self.send_header("Accept-Ranges", "bytes")
            if manner != WITHOUT_SIZE:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            return data

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}", requested
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def events(url: str) -> Counter[str]:
    found = discover([url])
    assert not found.errors + found.warnings
    return Counter(parse_on_driver(plan_splits(found.sources, 2_000_000))["event"].to_pylist())


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
@pytest.mark.parametrize("manner", [WITH_RANGES, WITHOUT, WITHOUT_SIZE])
def test_every_server_gives_all_records(manner: str, name: str) -> None:
    with serving(manner) as (address, _):
        assert events(f"{address}/{name}")["checkpoint_expired"] == LINES


def test_parts_are_requested_from_a_server_with_ranges() -> None:
    with serving(WITH_RANGES) as (address, requested):
        events(f"{address}/a.log")
        starts = {
            int(span[1]) for header in requested if (span := re.match(r"bytes=(\d+)", header))
        }
    assert len(starts) > 2 and max(starts) > len(LOG) // 2


def test_a_file_of_a_server_without_ranges_is_downloaded_once() -> None:
    with serving(WITHOUT) as (address, requested):
        events(f"{address}/a.log")
        assert requested == ["bytes=1-1", ""]  # the second is the file


def test_small_files_need_no_ranges() -> None:
    with serving(WITHOUT) as (address, _):
        assert sends_ranges(f"{address}/a.log.gz") and not sends_ranges(f"{address}/a.log")


def test_a_download_that_breaks_off_is_an_error() -> None:
    with serving(CUT_OFF) as (address, _):
        found = discover([f"{address}/a.log"])
    (error,) = found.errors
    assert str(error).startswith(f"{address}/a.log: Client") and "\n" not in str(error)
    assert [source.kind for source in found.sources] == ["not-read"]


@pytest.mark.parametrize(
    ("manner", "clause"),
    [(FORBIDDEN, "the server responds with 403 Forbidden"), (MISSING, "no such file or folder")],
)
def test_the_error_of_a_server_is_reported_without_the_signature(manner: str, clause: str) -> None:
    with serving(manner) as (address, _):
        (error,) = discover([f"{address}/a.log?sig=secret"]).errors
    assert str(error) == f"{address}/a.log: {clause}"


def test_a_server_that_is_down_is_not_a_missing_file() -> None:
    with serving(WITHOUT) as (address, _):
        pass
    (error,) = discover([f"{address}/a.log"]).errors
    assert "onnect" in str(error) and "no such file" not in str(error)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl for a certificate")
@pytest.mark.parametrize("trusted", [True, False])
def test_https_trusts_the_certificates_of_the_environment(trusted: bool, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    program = (
        "import sys; from tests.parsers.test_web_inputs import discover, events\n"
        "found = discover(sys.argv[1:])\n"
        "print(found.errors or events(sys.argv[1])['checkpoint_expired'])"
    )
    with serving(WITH_RANGES, context) as (address, _):
        done = subprocess.run(
            [sys.executable, "-c", program, f"{address}/a.log"],
            env={
                **os.environ,
                "SSL_CERT_FILE": str(certificate) if trusted else "/dev/null",
                "PYTHONPATH": str(Path(__file__).parents[2]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    expected = str(LINES) if trusted else "certificate"
    assert expected in done.stdout, done.stderr
    assert "no such file" not in done.stdout
