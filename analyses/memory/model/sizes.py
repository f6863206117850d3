"""Parses, formats and multiplies sizes and fractions exactly as Flink does."""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

MAX_LONG: Final = 2**63 - 1
MIB: Final = 1024 * 1024

_EXACT: Final = Context(prec=60)
_THOUSANDTH: Final = Decimal("0.001")
_UNITS: Final = (
    (("b", "bytes"), 1),
    (("k", "kb", "kibibytes"), 1024),
    (("m", "mb", "mebibytes"), 1024**2),
    (("g", "gb", "gibibytes"), 1024**3),
    (("t", "tb", "tebibytes"), 1024**4),
)
_SIZE: Final = re.compile(r"([0-9]*)(.*)", re.DOTALL)


class MemoryOptionError(ValueError):
    """Flink rejects these options. `chain` contains its messages, outermost first."""

    def __init__(self, *chain: str, bare: bool = False) -> None:
        """Store the messages, of which the last is the root cause. If `bare`, Flink does not wrap the error."""
        super().__init__(chain[0])
        self.chain = chain
        self.bare = bare

    def wrapped_in(self, wrapper: str) -> MemoryOptionError:
        """Return the error as the process prints it, with the wrapper's message in front."""
        return self if self.bare else MemoryOptionError(wrapper + self.chain[0], *self.chain)


def parse_size(text: str) -> int:
    """Parse a size to bytes as Flink does (`MemorySize.parseBytes`): a whole number with an optional unit.

    Raises:
        MemoryOptionError: with Flink's message.

    >>> parse_size(" 3 GB "), parse_size("512")
    (3221225472, 512)
    """
    trimmed = text.strip()
    if not trimmed:
        raise MemoryOptionError("argument is an empty- or whitespace-only string")
    hit = _SIZE.match(trimmed)
    number, unit = (hit[1], hit[2].strip().lower()) if hit else ("", "")
    if not number:
        raise MemoryOptionError("text does not start with a number")
    value = int(number) if len(number) < 25 else MAX_LONG + 1
    if value > MAX_LONG:
        raise MemoryOptionError(
            f"The value '{number}' cannot be re represented as 64bit number (numeric overflow)."
        )
    multiplier = next((by for words, by in _UNITS if unit in words), None)
    if multiplier is None and unit:
        known = " / ".join("(" + " | ".join(words) + ")" for words, _ in _UNITS)
        raise MemoryOptionError(
            f"Memory size unit '{unit}' does not match any of the recognized units: {known}"
        )
    result = value * (multiplier or 1)
    if result > MAX_LONG:
        raise MemoryOptionError(
            f"The value '{text}' cannot be re represented as 64bit number of bytes"
            " (numeric overflow)."
        )
    return result


def human_readable(size: int) -> str:
    """Format a size as Flink prints it (`MemorySize.toHumanReadableString`).

    >>> human_readable(1811939328), human_readable(1073741824), human_readable(0)
    ('1.688gb (1811939328 bytes)', '1024.000mb (1073741824 bytes)', '0 bytes')
    """
    # Flink's comparison is strict, too: exactly 1 GiB is printed as 1024 MB.
    unit, multiplier = next(
        ((words[1], by) for words, by in reversed(_UNITS) if size > by), ("bytes", 1)
    )
    if multiplier == 1:
        return f"{size} bytes"
    # Java rounds half up, but Python rounds half to even.
    amount = Decimal(repr(size / multiplier)).quantize(_THOUSANDTH, ROUND_HALF_UP)
    return f"{amount}{unit} ({size} bytes)"


def as_option(size: int) -> str:
    """Format a size in configuration syntax, in the largest unit that gives a whole number.

    >>> as_option(1073741824), as_option(134217730), as_option(1536 * 1024 * 1024)
    ('1g', '134217730b', '1536m')
    """
    for letter, multiplier in (("g", 1024**3), ("m", 1024**2), ("k", 1024)):
        if size and size % multiplier == 0:
            return f"{size // multiplier}{letter}"
    return f"{size}b"


def widen(text: str | float) -> float:
    """Return a fraction as Flink uses it: rounded to 32 bits, then widened to a double.

    >>> widen("0.1")
    0.10000000149011612
    """
    return float(struct.unpack("f", struct.pack("f", float(text)))[0])


def share(size: int, factor: float) -> int:
    """Multiply a size by a factor and truncate the result (`MemorySize.multiply`).

    >>> share(1342177280, widen("0.4"))
    536870920
    """
    if factor < 0:
        raise MemoryOptionError("multiplier must be >= 0")
    # Java multiplies the shortest decimal representation of the double, not the double itself.
    product = int(_EXACT.multiply(Decimal(size), Decimal(repr(factor))))
    if product > MAX_LONG:
        raise MemoryOptionError("long overflow")
    return product
