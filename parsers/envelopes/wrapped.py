"""Restores log lines that a mail program or a terminal wrapped.

A mail program wraps between words, as late as possible. A terminal wraps at its last column. Both leave signs that a
log does not have: every line ends where the next word would not have fit, or all full lines have the same length.
Only text with these signs is joined again.
"""

from __future__ import annotations

import re
from typing import Final

from flowdiag.parsers.catalogue import load_catalogue
from flowdiag.parsers.envelopes.times import read_time
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.traces import is_exception_line, is_trace_line

TEXT_BYTES: Final = 256 * 1024
"""Maximum size of a wrapped text. Larger texts come from files, which are not wrapped."""

_NARROWEST: Final = 40
_WIDEST_MAIL: Final = 120
_WIDEST_TERMINAL: Final = 400
_FULL_LINES: Final = 3  # two log lines may have the same length by chance, but hardly three
_LOOK: Final = 8 * 1024
_FITTED: Final = (
    0.9  # minimum share of continued lines that end at the width; the others were wrapped by hand
)
_QUOTE: Final = re.compile(r"[ \t]?(?:>[ \t]?){1,8}")
_BEGINS: Final = re.compile(r"\s{0,40}(?:at(?: |\Z)|\.\.\. \d{1,4} |Caused by:|Suppressed:)")


def unwrapped_lines(data: bytes) -> list[str] | None:
    r"""Return the original lines of a wrapped text, or None if it is not wrapped, or if joining reveals no messages.

    >>> head = b"2026-11-20 14:02:11,871 INFO  org.apache.flink.runtime.jobmaster.JobMaster"
    >>> mail = head + b"\n[] - Initializing job 'orders' (7e8abfb847c12f7b04299ff375ce6fdf).\n"
    >>> unwrapped_lines(mail)[0][len(head) :]
    " [] - Initializing job 'orders' (7e8abfb847c12f7b04299ff375ce6fdf)."
    """
    if len(data) > TEXT_BYTES or not _may_be_wrapped(data[:_LOOK]):
        return None
    lines = [line.rstrip("\r") for line in data.decode("utf-8", "replace").split("\n")]
    filled = [line for line in lines if line.strip()]
    if sum(line.lstrip().startswith(">") for line in filled) > 0.5 * len(filled):
        lines = [_QUOTE.sub("", line, count=1) for line in lines]
    begins = [_begins_record(line) for line in lines]
    if True not in begins:
        return None
    joined = _from_terminal(lines, begins) or _from_mail(lines, begins)
    if joined is None or _count_messages(joined) <= _count_messages(lines):
        return None
    return joined


def _may_be_wrapped(head: bytes) -> bool:
    """Return whether a text may be wrapped; fast enough for thousands of small files."""
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[:-1]]
    widths = [len(line) for line in lines]
    if widths.count(max(widths, default=0)) >= _FULL_LINES:
        return True
    return max((len(line) for line in lines if b" " in line.strip()), default=0) <= _WIDEST_MAIL


def _begins_record(line: str) -> bool:
    return read_time(line[:32])[1] is not None


def _from_terminal(lines: list[str], begins: list[bool]) -> list[str] | None:
    """Join each full line with the next line. Return None if no terminal wrapped the text."""
    width = max(map(len, lines))
    full = [len(line) == width for line in lines]
    if not _NARROWEST <= width <= _WIDEST_TERMINAL or sum(full) < max(_FULL_LINES, len(lines) / 5):
        return None
    joined: list[str] = []
    continues = False
    for line, is_full, is_begin in zip(lines, full, begins, strict=True):
        if continues and not is_begin:
            joined[-1] += line
        else:
            joined.append(line)
        continues = is_full
    return joined


def _from_mail(lines: list[str], begins: list[bool]) -> list[str] | None:
    """Join two lines if the first word of the second would not have fit on the first.

    Return None if no mail program wrapped the text.
    """
    lines = [line.rstrip() for line in lines]
    width = max((len(line) for line in lines if " " in line.strip()), default=0)
    if not _NARROWEST <= width <= _WIDEST_MAIL:
        return None
    joined: list[str] = []
    fitted = broken = 0
    inside = False  # only lines of a record: text around records stays as it is
    for above, line, is_begin in zip(("", *lines), lines, begins, strict=False):
        inside = is_begin or (inside and bool(above))
        if not inside or is_begin or _is_whole(line, joined[-1]):
            joined.append(line)
        elif len(above) + 1 + len(line.split(None, 1)[0]) > width:
            fitted += 1
            hyphen = above.endswith("-") and above[-2:-1].isalnum()
            joined[-1] += line.lstrip() if hyphen else f" {line.lstrip()}"
        else:
            broken += 1
            joined.append(line)
    return joined if fitted >= max(1, _FITTED * (fitted + broken)) else None


def _is_whole(line: str, above: str) -> bool:
    """Return whether a line starts a new log line. Inside a trace, an exception may continue the line above."""
    if not line or _BEGINS.match(line):
        return True
    return is_exception_line(line) and not (is_trace_line(above) or is_exception_line(above))


def _count_messages(lines: list[str]) -> int:
    """Count the lines that contain a known message of either engine."""
    catalogues = [load_catalogue(engine) for engine in ("flink", "spark")]
    heads = [prefix.parse(line) for line in lines if _begins_record(line)]
    return sum(
        any(known.recognize(head.text, begin=head.begin) is not None for known in catalogues)
        for head in heads
        if head.complete
    )
