"""Mutates inputs: truncated, interleaved, badly copied, or hostile logs.

Every choice is drawn from a `random.Random`, so that a seed reproduces it.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import zstandard

Mutation = Callable[[bytes, Random, Sequence[bytes]], bytes]

MOST: Final = 400_000
"""Maximum size of a mutated input in bytes; larger ones are cut."""

_NUMBERS: Final = (
    b"0", b"-1", b"00000000000000000000", b"2147483648", b"-2147483649", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775808", b"18446744073709551616", b"253402300800000",
    b"99999999999999999", b"9" * 400, b"1e309", b"-0.0", b"1E-400", b"NaN", b"Infinity", b"-Infinity",
    b"0x7f", b"1_000", b"1,000,000.5", b"\xd9\xa3\xd9\xa4", b"\xef\xbc\x91\xef\xbc\x92", b"\xc2\xb2",
)  # fmt: skip
_TIMES: Final = (
    b"0000-00-00 00:00:00,000", b"0001-01-01 00:00:00,000", b"9999-12-31 23:59:59,999",
    b"2026-02-30 25:61:61,999", b"1969-12-31 23:59:59,999", b"2026-11-21T06:00:00.123456789+99:99",
    b"2026-11-21T06:00:00-23:59", b"9999-12-31T23:59:59.999999999-14:00", b"0001-01-01T00:00:00+14:00",
    b"2016-12-31T23:59:60Z", b"26/11/21 06:00:00", b"Nov 21, 2026 6:00:00 PM", b"1795240801.123",
    b"2026-11-21 06:00:00\xe2\x80\xaf", b"99999-01-01 00:00:00,000", b"24:00:00.000",
)  # fmt: skip
_TEXTS: Final = (
    "\u202e", "\u200b", "\u2028", "\u0085", "\ufeff", "\U0001f4a9" * 3, "e\u0301", "ﬀ", "İ", "ß", "\x1b[2J",
    "\x1b]8;;http://x\x07", "\x08\x08\x08", "\r", "\v\f\x1c\x1d\x1e", "%s%n{}", "${jndi:ldap://x}", "\\u0000",
    "<script>", "]]>", "::error::", "=1+1", "\t", "\\", '"', "'", "`", "|", "!", "\ud7ff", "null", "None",
)  # fmt: skip
_BINARY: Final = (
    b"\0", b"\0" * 600, b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\x80", b"\xf0\x9f", b"\x1a", b"\x1f\x8b", b"PK\x03\x04",
)  # fmt: skip
_LONG: Final = (
    b" ", b"\t", b"a", b"(", b"[", b"{", b'"', b"\\", b"a.", b"a b ", b"/", b"0", b"=", b": ", b"- ", b"at ",
    b"\xe2\x80\x8b", b"1:", b"x=", b",", b"|", b"> ", b"_0", b"Caused by: ", b"\x1b[0m", b"... ", b"[]", b"{}",
)  # fmt: skip
_WORDS: Final = re.compile(rb"[\w.-]{3,}")
_DIGITS: Final = re.compile(rb"\d+")
_STAMPS: Final = re.compile(
    rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?|\d\d/\d\d/\d\d \d\d:\d\d:\d\d|\b1[4-9]\d{8,17}\b"
)


def mutated(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    """Apply a few mutations to an input.

    Args:
        data: an input.
        chance: draws the mutations and their places.
        others: inputs of any format, to splice in.
    """
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        data = chance.choice(MUTATIONS)(data, chance, others)[:MOST]
    return data


def _place(data: bytes, chance: Random) -> int:
    return chance.randrange(len(data) + 1)


def _flip(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _time in range(chance.choice((1, 2, 8, 40)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _cut(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, chance)
    return data[:at] if chance.random() < 0.6 else data[at:]


def _leave_out(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.choice((1, 2, 7, 60, 900)) :]


def _repeat(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, chance)
    part = data[at : at + chance.choice((1, 3, 20, 200, 2000))]
    times = min(chance.choice((1, 2, 10, 300)), 1 + 100_000 // (len(part) + 1))
    return data[:at] + part * times + data[at:]


def _lines(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    """Swap, drop, repeat or join lines, or break a line."""
    lines = data.splitlines(keepends=True) or [b""]
    one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
    what = chance.randrange(6)
    if what == 0:
        lines[one], lines[two] = lines[two], lines[one]
    elif what == 1:
        del lines[min(one, two) : max(one, two)]
    elif what == 2:
        lines[one] *= min(200, 1 + 60_000 // (len(lines[one]) + 1))
    elif what == 3:
        lines[one] = lines[one].rstrip(b"\r\n")
    elif what == 4:
        at = _place(lines[one], chance)
        lines[one] = lines[one][:at] + chance.choice((b"\n", b"\r\n", b"\r")) + lines[one][at:]
    else:
        chance.shuffle(lines)
    return b"".join(lines)


def _ends(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    end = chance.choice((b"\r\n", b"\r", b"", b"\n\n", b"\\n", b"\xe2\x80\xa8", b"\0\n"))
    return data.replace(b"\n", end)


def _splice(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    """Insert a piece of another input, in any format, at a line end or elsewhere."""
    other = chance.choice(others)
    at, begin = _place(data, chance), _place(other, chance)
    if chance.random() < 0.5:
        at, begin = data.rfind(b"\n", 0, at) + 1, other.rfind(b"\n", 0, begin) + 1
    piece = other[begin : begin + chance.choice((40, 400, 4000))]
    return data[:at] + piece + data[at if chance.random() < 0.7 else at + len(piece) :]


def _swap_found(pattern: re.Pattern[bytes], values: Sequence[bytes]) -> Mutation:
    def mutate(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
        found = list(pattern.finditer(data))
        if not found:
            return _insert(data, chance, others)
        some = chance.sample(found, min(len(found), chance.choice((1, 1, 3, 30))))
        for match in sorted(some, key=re.Match.start, reverse=True):
            data = data[: match.start()] + chance.choice(values) + data[match.end() :]
        return data

    return mutate


def _other_word(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    """Replace a word with another word from the same or another input."""
    words = _WORDS.findall(chance.choice(others) if chance.random() < 0.3 else data) or [b"x"]
    return _swap_found(_WORDS, [chance.choice(words)])(data, chance, others)


def _insert(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    at = _place(data, chance)
    inserted = chance.choice((*_NUMBERS, *_BINARY, *(text.encode() for text in _TEXTS)))
    return data[:at] + inserted + data[at:]


def _long(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    """Insert thousands of equal characters, which make patterns backtrack."""
    at = _place(data, chance)
    return data[:at] + chance.choice(_LONG) * chance.choice((40, 1000, 20_000)) + data[at:]


def _nested(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    """Insert brackets that never end, in place of a value."""
    depth = chance.choice((30, 1200, 60_000))
    opened = chance.choice((b"[", b'{"a":', b"(", b"{a={"))
    closed = {b"[": b"]", b'{"a":': b"}", b"(": b")", b"{a={": b"}}"}[opened]
    at = max(data.find(b":", _place(data, chance)) + 1, 0)
    return data[:at] + opened * depth + closed * chance.choice((0, depth)) + data[at:]


def _json(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    """Change a value in a document, or in a JSON line."""
    lines = data.split(b"\n")
    whole = len(lines) < 3 or data.startswith((b"{\n", b"[\n"))
    at = chance.randrange(len(lines))
    try:
        value = json.loads(data if whole else lines[at])
    except (ValueError, RecursionError):
        return _lines(data, chance, others)
    if not isinstance(value, (dict, list)):
        return _lines(data, chance, others)
    for _ in range(chance.choice((1, 1, 4))):
        _change(value, chance)
    try:
        changed = json.dumps(value, indent=chance.choice((None, None, 1))).encode()
    except (ValueError, RecursionError):
        return data
    if whole:
        return changed
    return b"\n".join([*lines[:at], changed, *lines[at + 1 :]])


def _change(value: Any, chance: Random) -> None:
    """Drop or duplicate a nested value, or replace it with another type."""
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = chance.choice(keys)
        below = value[key]
        if isinstance(below, (dict, list)) and below and chance.random() < 0.8:
            value = below
            continue
        what = chance.random()
        if what < 0.2:
            del value[key]
        elif what < 0.3 and isinstance(value, list):
            value *= 2
        else:
            value[key] = chance.choice(_values(below, chance))
        return


def _values(old: Any, chance: Random) -> list[Any]:
    return [
        None, True, "", "x", [], {}, [old], {"a": old}, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -0.5,
        float("nan"), float("inf"), "NaN", "9" * 300, str(old), [None], {"": None}, "a" * 5000, "\ud800",
        253402300800000, "9999-12-31T23:59:59.999Z", [[[]]], chance.random(), "\0", "-", "0001-01-01", "é" * 40,
    ]  # fmt: skip


def _wrapped(data: bytes, chance: Random, _: Sequence[bytes]) -> bytes:
    """Wrap the input in a codec, a container or another encoding, sometimes damaged by a later
    mutation.
    """
    what = chance.randrange(6)
    if what == 0:
        return gzip.compress(data, 1)
    if what == 1:
        return zstandard.compress(data, 1)
    if what == 2:
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as container:
            container.writestr("logs/a.log", data)
            container.writestr("../\u202e\n" if chance.random() < 0.3 else "b", data[:2000])
        return sink.getvalue()
    if what == 3:
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w") as tar:
            info = tarfile.TarInfo(
                chance.choice(("a.log", "../../a", "x/" * 90 + "y", "\n\x1b[2J"))
            )
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        return sink.getvalue()
    text = data.decode("utf-8", "replace")
    return text.encode(chance.choice(("utf-16", "utf-16-be", "utf-32-le", "latin-1")), "replace")


MUTATIONS: Final[tuple[Mutation, ...]] = (
    _flip, _cut, _leave_out, _repeat, _lines, _lines, _ends, _splice, _splice, _insert, _long, _nested,
    _json, _json, _json, _other_word, _swap_found(_DIGITS, _NUMBERS), _swap_found(_DIGITS, _NUMBERS),
    _swap_found(_STAMPS, (*_TIMES, *_NUMBERS)), _wrapped,
)  # fmt: skip
"""Important mutations are listed twice."""
