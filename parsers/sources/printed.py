"""JSON as a terminal or a page shows it: between what `curl -v` prints, below a prompt, in a fence, quoted.

Everything around the JSON is blanked and nothing is moved, so that offsets stay those of the file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

MOST_VALUES: Final = 100_000
MOST_IN_VAIN: Final = 32 * 1024 * 1024
"""What may be spent on what begins like JSON and is none, in characters read."""

# At the begin of a line; and a report of a streaming query wherever it stands, since listeners print it.
_BEGIN: Final = re.compile(
    r'^[ \t]*+([{\[])(?=\s*[\[{"\]}])|(\{)(?=\s{0,20}"id"\s?:\s?"[0-9a-f]{8}-[0-9a-f-]{27}"\s{0,20},)',
    re.MULTILINE,
)
_QUOTED: Final = re.compile(r"^[ \t]?(?:>[ ]?)+|^[ ]\*(?=[ ])", re.MULTILINE)
_ASKED: Final = re.compile(
    r"(?:\bGET[ ]|\bcurl\b[^\n]{0,300}?https?://[^/\s\"']{1,255})(/[\w./:?=&,%~+-]{1,1000})"
)


@dataclass(frozen=True, slots=True)
class Printed:
    """What was found.

    Attributes:
        data: the JSON values where they stood, and blanks around them.
        around: the rest, and blanks where they stood.
        values: where each begins.
        path: what was asked for, where the text says so and only one thing was.
    """

    data: bytes
    around: bytes
    values: tuple[int, ...]
    path: str | None


def json_printed(data: bytes) -> Printed | None:
    r"""Find the JSON values in a text; None if there are none.

    >>> json_printed(b"> GET /overview HTTP/1.1\n< HTTP/1.1 200 OK\n{}* Connection #0\n").path
    '/overview'
    >>> json_printed(b"{ [123 bytes data]\n") is None
    True
    """
    text = data.decode("latin-1")  # a character is a byte
    if text.count("\n>") * 2 > text.count("\n") or text.count("\n * ") * 2 > text.count("\n"):
        text = _QUOTED.sub(lambda found: " " * len(found[0]), text)
    decoder = json.JSONDecoder(strict=False)
    values: list[tuple[int, int]] = []
    at = vain = 0
    while (found := _BEGIN.search(text, at)) is not None:
        begin = found.end() - 1
        try:
            _, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as problem:
            reached = problem.pos if isinstance(problem, json.JSONDecodeError) else len(text)
            # The error counts the lines in front of it, too.
            at, vain = begin + 1, vain + 100 + max(0, reached - begin) + reached // 50
            if vain > MOST_IN_VAIN:
                break
            continue
        values.append((begin, end))
        at = end
        if len(values) == MOST_VALUES:
            break
    if not values:
        return None
    around = bytearray(text.encode("latin-1"))
    blank = bytearray(around.translate(_BLANKS))
    for begin, end in values:
        blank[begin:end] = around[begin:end]
        around[begin:end] = b" " * (end - begin)
    asked = {path.partition("?")[0] for path in _ASKED.findall(text)}
    return Printed(
        data=bytes(blank),
        around=bytes(around),
        values=tuple(begin for begin, _ in values),
        path=asked.pop() if len(asked) == 1 else None,
    )


_BLANKS: Final = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))
