"""A web server on loopback that responds like a recorded cluster, and misbehaves on demand."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.archives import unpacked

COLLECTED = Path(__file__).parents[1] / "fixtures" / "recordings" / "collected"


@dataclass
class Reply:
    """One response; `cut` sends half of the body, `delay_s` delays it, `stream` replaces the body."""

    body: bytes = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: bool = False
    stream: Callable[[], Iterator[bytes]] | None = None


def as_json(value: Any, **more: Any) -> Reply:
    """Return a JSON response."""
    return Reply(json.dumps(value).encode(), **more)


NOT_FOUND = as_json({"errors": ["Not found."]}, status=404)


class _QuietServer(ThreadingHTTPServer):
    """Ignores dropped connections, which the tests provoke."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class FakeServer:
    """Records requests and answers them with `respond`, as a server or as a proxy for any host."""

    def __init__(
        self, respond: Callable[[str, dict[str, list[str]]], Reply], host: str, proxy: bool
    ) -> None:
        self.respond = respond
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are two writes: 40 ms apart otherwise

            def do_GET(self) -> None:
                with lock:
                    outer.requests.append(self.path)
                    outer.headers.append(dict(self.headers.items()))
                    outer.at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer.at_once)
                try:
                    parts = urlsplit(self.path)
                    place = f"{parts.scheme}://{parts.netloc}" if proxy else ""
                    reply = outer.respond(place + unquote(parts.path), parse_qs(parts.query))
                    time.sleep(reply.delay_s)
                    self.send_response(reply.status)
                    self.send_header("Content-Type", reply.kind)
                    if reply.stream is None:
                        self.send_header("Content-Length", str(len(reply.body)))
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    if reply.stream is not None:
                        self.close_connection = True
                        for piece in reply.stream():
                            self.wfile.write(piece)
                    elif reply.cut:
                        self.wfile.write(reply.body[: len(reply.body) // 2])
                        self.close_connection = True
                    else:
                        self.wfile.write(reply.body)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                finally:
                    with lock:
                        outer.at_once -= 1

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _QuietServer((host, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def wrap(self, context: ssl.SSLContext) -> None:
        """Use TLS from now on."""
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def paths(self) -> list[str]:
        """Return the requested paths, without queries."""
        return [path.partition("?")[0] for path in self.requests]

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(
    respond: Callable[[str, dict[str, list[str]]], Reply],
    host: str = "127.0.0.1",
    *,
    proxy: bool = False,
) -> Iterator[FakeServer]:
    """Run a server for the duration of a block. A server that acts as a proxy sees whole URLs as
    paths, without queries."""
    server = FakeServer(respond, host, proxy)
    try:
        yield server
    finally:
        server.stop()


class RecordedFlink:
    """Answers as a recorded cluster does, from the first files of a collection, by path.

    Unless `frozen`, metrics are refreshed before every tick.
    """

    def __init__(self, version: str = "1.20.5") -> None:
        self.answers: dict[str, Any] = {}
        self.metrics: dict[str, dict[str, Any]] = {}
        self.refresh_ms = 1_795_228_000_000
        self.frozen = False
        recording = unpacked(COLLECTED / f"{version}-hot-key")
        for path in sorted((recording / "collected").glob("tick-*"))[:3]:
            for answer in json.loads(path.read_bytes())["answers"]:
                name = answer["path"]
                if name.endswith("/metrics"):
                    known = self.metrics.setdefault(name, {})
                    known.update({item["id"]: item["value"] for item in answer["body"]})
                else:
                    self.answers.setdefault(name, answer["body"])
        self.job_id = next(
            name.split("/")[2]
            for name in self.answers
            if name.startswith("/jobs/") and len(name) == 38
        )
        self.job = self.answers[f"/jobs/{self.job_id}"]
        now = self.job["now"]
        self._offset_ms = now - int(time.time() * 1000)

    def __call__(self, path: str, query: dict[str, list[str]]) -> Reply:
        if path in self.metrics or path.endswith("/metrics"):
            return self._metrics(path, query)
        if path.endswith("/backpressure"):
            if not self.frozen:
                self.refresh_ms += 10_000
            return as_json({"status": "ok", "end-timestamp": self.refresh_ms, "subtasks": []})
        if path == f"/jobs/{self.job_id}":
            return as_json(self.job | {"now": int(time.time() * 1000) + self._offset_ms})
        return as_json(self.answers[path]) if path in self.answers else NOT_FOUND

    def _metrics(self, path: str, query: dict[str, list[str]]) -> Reply:
        known = self.metrics.get(path, {})
        if "/subtasks/" in path:
            of_vertex = self.metrics.get(path.partition("/subtasks/")[0] + "/metrics", {})
            known = {
                name.removeprefix("0."): value
                for name, value in of_vertex.items()
                if name.startswith("0.")
            }
        if "get" not in query:
            return as_json([{"id": name} for name in known])
        names = query["get"][0].split(",")
        return as_json([{"id": name, "value": known[name]} for name in names if name in known])
