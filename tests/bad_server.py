"""A JobManager that misbehaves in the ways of docs/reliability.md: `python -m tests.bad_server
CASE`.
"""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from tests.fake_server import RecordedFlink, Reply, as_json, serving


def drops() -> Iterator[bytes]:
    """Send a byte now and then, forever."""
    while True:
        yield b" "
        time.sleep(0.02)


def floods() -> Iterator[bytes]:
    """Send as much as possible, forever."""
    while True:
        yield b"[" * 65536


Misbehaves = Callable[[], Reply]

CASES: Final[dict[str, Misbehaves]] = {
    "slow": lambda: Reply(stream=drops),
    "silent": lambda: as_json({}, delay_s=3600.0),
    "endless": lambda: Reply(stream=floods),
    "bomb": lambda: Reply(gzip.compress(bytes(1 << 30)), headers={"Content-Encoding": "gzip"}),
    "zstd": lambda: Reply(b"(\xb5/\xfd", headers={"Content-Encoding": "zstd"}),
    "values": lambda: Reply(b"[" + b"[]," * 10_000_000 + b"1]"),
    "no-json": lambda: Reply(b"{not json"),
    "half": lambda: as_json(list(range(1000)), cut=True),
    "redirect": lambda: Reply(status=302, headers={"Location": "http://example.org/config"}),
    "file": lambda: Reply(status=302, headers={"Location": "file:///etc/passwd"}),
    "circle": lambda: Reply(status=302, headers={"Location": "/again"}),
    "login": lambda: Reply(b"<html>Log in", kind="text/html"),
    "closed": lambda: Reply(b"no", status=401),
    "forbidden": lambda: Reply(b"no", status=403),
    "busy": lambda: Reply(b"", status=429, headers={"Retry-After": "3600"}),
    "https": lambda: Reply(b"Client sent an HTTP request to an HTTPS server.\n", status=400),
    "dead": lambda: Reply(b"gone", cut=True),
}


def main(case: str, good: int) -> None:
    """Serve until interrupted.

    Args:
        case: the misbehaviour.
        good: number of correct responses at the start.
    """
    flink, left = RecordedFlink(), [good]

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        left[0] -= 1
        return flink(path, query) if left[0] >= 0 else CASES[case]()

    with serving(respond) as server:
        print(server.url, flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in CASES:
        sys.exit(f"python -m tests.bad_server CASE [GOOD-ANSWERS-FIRST]; cases: {', '.join(CASES)}")
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 0)
