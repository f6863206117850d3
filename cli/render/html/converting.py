"""The process that `converter.py` starts: Vega-Lite in, SVG out, a line of JSON each, until the input ends.

It is run as a file and imports nothing of flowdiag, so that it is ready soon.
"""

from __future__ import annotations

import json
import os
import sys


def serve() -> None:
    """Answer each specification with `{"svg": …}` or `{"error": …}`, after a first line that says `ready`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print is no answer
    import vl_convert

    answers.write(b"ready\n")
    answers.flush()
    for line in sys.stdin.buffer:
        try:
            answer = {"svg": vl_convert.vegalite_to_svg(line.decode())}
        except Exception as error:  # noqa: BLE001 - the library raises whatever its JavaScript does
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    serve()
