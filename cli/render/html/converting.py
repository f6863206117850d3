"""The process that `converter.py` starts: it converts lines of Vega-Lite to lines of SVG until the input ends.

It runs as a file and imports no module of flowdiag, so that it starts quickly.
"""

from __future__ import annotations

import json
import os
import sys


def serve() -> None:
    """Print `ready`, then answer each specification with `{"svg": …}` or `{"error": …}`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with answers
    import vl_convert

    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin.buffer:
        try:
            answer = {"svg": vl_convert.vegalite_to_svg(line.decode())}
        except Exception as error:  # noqa: BLE001 - the library passes on any error of its JavaScript
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve()
