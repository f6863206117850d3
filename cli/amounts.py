"""Counts and sizes as people say them. Imports nothing: progress tells them before much is imported."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "input"), plural(2, "input"), plural(12_000, "record"), plural(2, "retry")
    ('1 input', '2 inputs', '12 000 records', '2 retries')
    """
    if count == 1:
        return f"1 {noun}"
    plural_form = f"{noun[:-1]}ies" if noun.endswith("try") else f"{noun}s"
    return f"{thousands(count)} {plural_form}"


def thousands(value: float) -> str:
    """An integer in groups of three.

    >>> thousands(1234567)
    '1 234 567'
    """
    return f"{value:,.0f}".replace(",", " ")


def size(count: float) -> str:
    """Bytes with a decimal prefix.

    >>> [size(n) for n in (0, 999, 1000, 3_200_000, 3_245_000_000)]
    ['0 B', '999 B', '1 kB', '3.2 MB', '3.2 GB']
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(count) < 999.5 or unit == "TB":
            break
        count /= 1000
    text = (
        f"{count:.0f}" if unit == "B" or abs(count) >= 99.5 else f"{count:.1f}".removesuffix(".0")
    )
    return f"{text} {unit}"
