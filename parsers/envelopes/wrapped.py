"""Logs that a mail program or a terminal broke at a column: the lines as they were.

A mail program breaks between words, as late as it can; a terminal breaks anywhere, at its last column. Both leave a
mark that no log has by itself: a line ends where its next word would not have fitted, or all full lines are as long
as each other. What was broken is put together again; where nothing shows that it was, nothing is touched.
"""

from __future__ import annotations

import re
from typing import Final

from flowdiag.parsers.catalogue import load_catalogue
from flowdiag.parsers.envelopes.times import read_time
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.traces import is_exception_line, is_trace_line

TEXT_BYTES: Final = 256 * 1024
"""Larger texts come out of files, which nobody wraps."""

_NARROWEST: Final = 40
_WIDEST_MAIL: Final = 120
_WIDEST_TERMINAL: Final = 400
_FULL_LINES: Final = (
    3  # two of the same length are chance: lines of a log are hardly ever as long as each other
)
_LOOK: Final = 8 * 1024
_FITTED: Final = 0.9  # of the lines that go on: the others were broken by hand
_QUOTE: Final = re.compile(r"[ \t]?(?:>[ \t]?){1,8}")
_BEGINS: Final = re.compile(r"\s{0,40}(?:at(?: |\Z)|\.\.\. \d{1,4} |Caused by:|Suppressed:)")


def unwrapped_lines(data: bytes) -> list[str] | None:
    r"""The lines of a text before it was wrapped; None where it was not, or nothing is gained.

    >>> head = b"2026-11-20 14:02:11,871 INFO  org.apache.flink.runtime.jobmaster.JobMaster"
    >>> mail = head + b"\n[] - Initializing job 'orders' (7e8abfb847c12f7b04299ff375ce6fdf).\n"
    >>> unwrapped_lines(mail)[0][len(head) :]
    " [] - Initializing job 'orders' (7e8abfb847c12f7b04299ff375ce6fdf)."
    """
    if len(data) > TEXT_BYTES or not _may_be_wrapped(data[:_LOOK]):
        return None
    lines = [line.rstrip("\r") for line in data.decode("utf-8", "replace").split("\n")]
    said = [line for line in lines if line.strip()]
    if sum(line.lstrip().startswith(">") for line in said) > 0.5 * len(said):
        lines = [_QUOTE.sub("", line, count=1) for line in lines]
    begins = [_begins_record(line) for line in lines]
    if True not in begins:
        return None
    joined = _from_terminal(lines, begins) or _from_mail(lines, begins)
    if joined is None or _messages(joined) <= _messages(lines):
        return None
    return joined


def _may_be_wrapped(head: bytes) -> bool:
    """A quick look: thousands of small files have no time for a slow one."""
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")[:-1]]
    widths = [len(line) for line in lines]
    if widths.count(max(widths, default=0)) >= _FULL_LINES:
        return True
    return max((len(line) for line in lines if b" " in line.strip()), default=0) <= _WIDEST_MAIL


def _begins_record(line: str) -> bool:
    return read_time(line[:32])[1] is not None


def _from_terminal(lines: list[str], begins: list[bool]) -> list[str] | None:
    """Full lines go on in the next one, without anything between."""
    width = max(map(len, lines))
    full = [len(line) == width for line in lines]
    if not _NARROWEST <= width <= _WIDEST_TERMINAL or sum(full) < max(_FULL_LINES, len(lines) / 5):
        return None
    joined: list[str] = []
    goes_on = False
    for line, is_full, is_begin in zip(lines, full, begins, strict=True):
        if goes_on and not is_begin:
            joined[-1] += line
        else:
            joined.append(line)
        goes_on = is_full
    return joined


def _from_mail(lines: list[str], begins: list[bool]) -> list[str] | None:
    """A line goes on in the next one if the next one's first word would not have fitted."""
    lines = [line.rstrip() for line in lines]
    width = max((len(line) for line in lines if " " in line.strip()), default=0)
    if not _NARROWEST <= width <= _WIDEST_MAIL:
        return None
    joined: list[str] = []
    fitted = broken = 0
    inside = False  # of a record: what somebody wrote around it is nobody's line
    for number, line in enumerate(lines):
        above = lines[number - 1] if number else ""
        inside = begins[number] or (inside and bool(above))
        if (
            not inside
            or begins[number]
            or not line
            or _BEGINS.match(line)
            or (is_exception_line(line) and not _throws(joined[-1]))
        ):
            joined.append(line)
        elif len(above) + 1 + len(line.split(None, 1)[0]) > width:
            fitted += 1
            hyphen = above.endswith("-") and above[-2:-1].isalnum()
            joined[-1] += line.lstrip() if hyphen else f" {line.lstrip()}"
        else:
            broken += 1
            joined.append(line)
    return joined if fitted and fitted >= _FITTED * (fitted + broken) else None


def _throws(line: str) -> bool:
    """Whether a line is one of a stack trace, so that an exception may be its second half."""
    return is_trace_line(line) or is_exception_line(line)


def _messages(lines: list[str]) -> int:
    """How many of the lines either engine is known to write."""
    catalogues = [load_catalogue(engine) for engine in ("flink", "spark")]
    heads = [prefix.parse(line) for line in lines if _begins_record(line)]
    return sum(
        any(one.recognise(head.text, begin=head.begin) is not None for one in catalogues)
        for head in heads
        if head.complete
    )
