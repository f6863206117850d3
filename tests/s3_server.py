"""A server of the S3 API on loopback: moto, with refused keys and throttling. Usage: `python s3_server.py PORT`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>{text}</Message></Error>'


def application() -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """Return moto with additional answers, by access key and by object name."""
    moto = DomainDispatcherApplication(create_backend_app)
    throttled: dict[str, int] = {}

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        key = re.search(r"Credential=(\w+)", environ.get("HTTP_AUTHORIZATION", ""))
        code = ""
        if key is None or key[1] != "good":
            status, code, text = "403 Forbidden", "InvalidAccessKeyId", "The key does not exist."
        elif environ["REQUEST_METHOD"] == "GET" and "slow" in path:
            throttled[path] = throttled.get(path, 0) + 1
            if throttled[path] <= 2 or "slowest" in path:
                status, code, text = "503 Slow Down", "SlowDown", "Please reduce your request rate."
        if not code:
            return moto(environ, start)  # type: ignore[no-any-return]
        start(status, [("Content-Type", "application/xml")])
        return [ERROR.format(code=code, text=text).encode()]

    return answer


if __name__ == "__main__":
    run_simple("127.0.0.1", int(sys.argv[1]), application(), threaded=True)
