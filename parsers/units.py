"""Parses durations, sizes and versions in options, logs and user input.

All functions return None for text that they do not accept, and callers raise their own errors. Callers choose the
accepted formats with unit tables and flags: nothing is guessed from the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Final

TIME_UNITS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("ms", "milli", "millis"), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}
"""Milliseconds per unit in the options of Flink and Spark, in lower case."""

SIZE_UNITS: Final[Mapping[str, int]] = {
    "": 1,
    "bytes": 1,
    "b": 1,
    "kibibytes": 2**10,
    "mebibytes": 2**20,
    "gibibytes": 2**30,
    "tebibytes": 2**40,
    **{
        letter + rest: 1024**power
        for power, letter in enumerate("kmgtpe", 1)
        for rest in ("", "b", "ib")
    },
}
"""Bytes per unit in Flink, Spark and the JVM, in lower case; all are powers of 1024."""

KUBERNETES_UNITS: Final[Mapping[str, int]] = {
    "": 1,
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGT", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGT", 1)},
}
"""Bytes per unit of Kubernetes quantities: `Ki` is 1024 and `k` is 1000. Case matters."""


def duration_ms(
    text: str | None,
    *,
    bare: str = "ms",
    units: Mapping[str, int] = TIME_UNITS,
    iso: bool = True,
    whole: bool = False,
) -> float | None:
    """Parse a duration into milliseconds: a number with a unit, or ISO 8601 (`PT…`).

    Args:
        text: the duration, in upper or lower case.
        bare: unit to assume for a bare number.
        units: accepted units.
        iso: whether to accept `PT1M30S`.
        whole: accept only whole numbers of at most nine digits, without a sign.

    >>> [duration_ms(text) for text in ("600000", "10 min", "PT1M8.5S", "1d", "often", None)]
    [600000.0, 600000.0, 68500.0, 86400000.0, None, None]
    >>> duration_ms("14.831", bare="s"), duration_ms("1.5 s", whole=True), duration_ms("PT8S", iso=False)
    (14831.0, None, None)
    """
    given = (text or "").strip().lower()
    if given.startswith("pt"):
        return _iso_ms(given[2:]) if iso else None
    number = given.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = given[len(number) :].strip() or bare
    if whole and not (number.isdecimal() and len(number) < 10):
        return None
    try:
        return float(number) * units[unit]
    except (ValueError, KeyError):
        return None


_ISO_UNITS: Final = {"h": 3_600_000, "m": 60_000, "s": 1000}


def _iso_ms(text: str) -> float | None:
    total, number = 0.0, ""
    for character in text:
        if character.isdigit() or character == ".":
            number += character
        elif number and character in _ISO_UNITS:
            try:
                total += float(number) * _ISO_UNITS[character]
            except ValueError:
                return None
            number = ""
        else:
            return None
    return None if number else total


# Numbers are bounded, because Python refuses to convert thousands of digits.
_SIZE: Final = re.compile(
    r"(?P<number>[0-9]{1,40}(?:[.,][0-9]{0,40})?|[.,][0-9]{1,40})\s*(?P<unit>[A-Za-z]*)"
)


def size_bytes(
    text: str | None, *, units: Mapping[str, int] = SIZE_UNITS, whole: bool = False
) -> float | None:
    """Parse a size into bytes: a number with a unit. The result is an int for whole numbers, otherwise a float.

    Args:
        text: the size, with a decimal point or comma.
        units: accepted units; case matters only for `KUBERNETES_UNITS`.
        whole: accept only whole numbers, as Flink's options do.

    >>> [size_bytes(text) for text in ("1728m", "32768", "1 mb", "12.5 KiB", "2,5 GB", "much")]
    [1811939328, 32768, 1048576, 12800.0, 2684354560.0, None]
    >>> size_bytes("1.5g", whole=True), size_bytes("2Gi", units=KUBERNETES_UNITS)
    (None, 2147483648)
    """
    found = _SIZE.fullmatch((text or "").strip())
    if found is None:
        return None
    word = found["unit"]
    unit = units.get(word if units is KUBERNETES_UNITS else word.lower())
    number = found["number"].replace(",", ".")
    if unit is None or (whole and "." in number):
        return None
    return float(number) * unit if "." in number else int(number) * unit


_VERSION: Final = re.compile(r"\s*v?(\d{1,3})[._](\d{1,4})")
_PLAIN_VERSION: Final = re.compile(r"\s*(\d{1,3})\.(\d{1,3})(?:\.[^.]*)*\s*")


def version_of(text: str | None, *, plain: bool = False) -> tuple[int, int] | None:
    """Parse the major and minor version and ignore vendor suffixes.

    Args:
        text: the version.
        plain: accept only `1.20` and `1.20.…`, as users write versions.

    >>> version_of("1.17-vvr-8.0.1-SNAPSHOT"), version_of("v2.3.0"), version_of(None)
    ((1, 17), (2, 3), None)
    >>> version_of("v1_17")  # as in a FlinkDeployment
    (1, 17)
    >>> version_of("1.17-vvr", plain=True), version_of("1.20.1", plain=True)
    (None, (1, 20))
    """
    found = _PLAIN_VERSION.fullmatch(text or "") if plain else _VERSION.match(text or "")
    return (int(found[1]), int(found[2])) if found else None


def days_since_1970(year: int, month: int, day: int) -> int | None:
    """Return the days since 1970-01-01, or None for invalid dates and years that another time zone could overflow.

    >>> days_since_1970(1970, 1, 2), days_since_1970(2026, 2, 30), days_since_1970(9999, 12, 31)
    (1, None, None)
    """
    try:
        return date(year, month, day).toordinal() - _EPOCH_DAY if 1 < year < 9999 else None
    except ValueError:
        return None


_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
