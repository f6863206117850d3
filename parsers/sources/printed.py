"""Finds JSON in terminal output and on web pages.

The JSON may be in the output of `curl -v`, below a prompt, fenced, quoted, colored by `jq`, or printed by
Python (`print(response.json())`, `pprint`).

Spaces replace the text around the JSON, so that offsets remain those of the file.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

MOST_VALUES: Final = 100_000
MOST_WASTED: Final = 32 * 1024 * 1024
"""Maximum number of characters read in text that starts like JSON but is something else."""

# At the start of a line. Reports of streaming queries can be anywhere, because listeners print them.
_BEGIN: Final = re.compile(
    r'^[ \t]*+([{\[])(?=\s*[\[{"\'\]}])|(\{)(?=\s{0,20}"id"\s?:\s?"[0-9a-f]{8}-[0-9a-f-]{27}"\s{0,20},)',
    re.MULTILINE,
)
_COLOR: Final = re.compile(r"\x1b\[[0-9;]{0,12}m")
# Runs at each bracket, so the distance between brackets and the first word is bounded.
_OF_PYTHON: Final = re.compile(r"[{\[][\s{\[]{0,200}+'")
# A word in single or double quotes, a constant, or a bracket.
_TOKEN: Final = re.compile(
    r"\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\b(?:True|False|None)\b|[{}\[\]]", re.DOTALL
)
_INNER: Final = re.compile(r"(\\?)\"")  # a double quote inside a single-quoted word
_BY_NUMBER: Final = re.compile(r"\\x[0-9a-f]{2}")
_PYTHON_CHARACTERS: Final = 4 * 1024 * 1024  # maximum characters of one object
_REWRITTEN: Final = 20  # rewriting a character costs as much as reading this many
_CONSTANTS: Final = {"True": "true", "False": "false", "None": "null"}
_QUOTED: Final = re.compile(r"^[ \t]?(?:>[ ]?)+|^[ ]\*(?=[ ])", re.MULTILINE)
_REQUESTED: Final = re.compile(
    r"(?:\bGET[ ]|\bcurl\b[^\n]{0,300}?https?://[^/\s\"']{1,255})(/[\w./:?=&,%~+-]{1,1000})"
)


@dataclass(frozen=True, slots=True)
class PrintedJson:
    """The JSON values found in a text.

    Attributes:
        data: the JSON values at their offsets, with spaces in place of the other text.
        around: the other text, with spaces in place of the values.
        values: offsets of the values.
        path: the requested path, if the text contains exactly one.
    """

    data: bytes
    around: bytes
    values: tuple[int, ...]
    path: str | None


def json_printed(data: bytes) -> PrintedJson | None:
    r"""Find the JSON values in a text; return None if there are none.

    >>> json_printed(b"> GET /overview HTTP/1.1\n< HTTP/1.1 200 OK\n{}* Connection #0\n").path
    '/overview'
    >>> json_printed(b"{ [123 bytes data]\n") is None
    True
    """
    text = _strip_decoration(data.decode("latin-1"))  # latin-1, so that a character is a byte
    decoder = json.JSONDecoder(strict=False)
    values: list[tuple[int, str]] = []
    at = wasted = 0
    while (found := _BEGIN.search(text, at)) is not None:
        begin = found.end() - 1
        shown = _as_json(text, begin) if _OF_PYTHON.match(text, begin) else None
        try:
            end = (
                decoder.raw_decode(text, begin)[1]
                if shown is None
                else begin + decoder.raw_decode(shown)[1]
            )
        except (ValueError, RecursionError) as problem:
            reached = problem.pos if isinstance(problem, json.JSONDecodeError) else len(text)
            reached = begin + _REWRITTEN * len(shown) if shown else reached
            # Creating the error is expensive, because it counts the lines before it.
            at, wasted = begin + 1, wasted + 100 + max(0, reached - begin) + reached // 50
            if wasted > MOST_WASTED:
                break
            continue
        values.append((begin, shown or text[begin:end]))
        at = end
        if len(values) == MOST_VALUES:
            break
    if not values:
        return None
    around = bytearray(text.encode("latin-1"))
    only_values = bytearray(around.translate(_SPACES))
    for begin, value in values:
        end = begin + len(value)
        only_values[begin:end] = value.encode("latin-1")
        around[begin:end] = b" " * len(value)
    requested = {path.partition("?")[0] for path in _REQUESTED.findall(text)}
    return PrintedJson(
        data=bytes(only_values),
        around=bytes(around),
        values=tuple(begin for begin, _ in values),
        path=requested.pop() if len(requested) == 1 else None,
    )


def _strip_decoration(text: str) -> str:
    """Replace quote marks and color codes with spaces."""
    if text.count("\n>") * 2 > text.count("\n") or text.count("\n * ") * 2 > text.count("\n"):
        text = _QUOTED.sub(lambda found: " " * len(found[0]), text)
    return _COLOR.sub(lambda found: " " * len(found[0]), text)


def begins_as_json(data: bytes) -> bool:
    """Return whether a text is probably JSON from its first character.

    >>> begins_as_json(b' [{"a": 1}]'), begins_as_json(b"[{'a': 1}]"), begins_as_json(b"< HTTP/1.1 200 OK")
    (True, False, False)
    """
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:200]
    if start[:1] not in (b"{", b"[") or b"\x1b[" in start:
        return False
    return _OF_PYTHON.match(start.decode("latin-1")) is None


def _as_json(text: str, begin: int) -> str:
    """Convert a printed Python object to JSON of the same length.

    Double quotes in a string become single quotes, and numeric character escapes become question marks.
    """
    pieces: list[str] = []
    at, depth = begin, 0
    for token in _TOKEN.finditer(text, begin, begin + _PYTHON_CHARACTERS):
        word = token[0]
        depth += (word in "{[") - (word in "}]")
        if word[0] in "\"'":
            inner = _BY_NUMBER.sub("????", word[1:-1]).replace("\\'", " '")
            if word[0] == "'":
                inner = _INNER.sub(lambda quote: " '" if quote[1] else "'", inner)
            word = f'"{inner}"'
        pieces += (text[at : token.start()], _CONSTANTS.get(word, word))
        at = token.end()
        if depth == 0:
            break
    return "".join(pieces)


_SPACES: Final = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))
