"""Finds failures in lines that only mention them, in short texts without any other failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Final

from flowdiag.parsers.codes import codes_in
from flowdiag.parsers.exceptions import announced_failure
from flowdiag.parsers.lines import prefix
from flowdiag.parsers.lines.decoration import is_html, strip_decoration
from flowdiag.parsers.lines.failure_lines import (
    failure_line,
    is_fallback,
    is_harmless,
    is_harmless_record,
)
from flowdiag.parsers.logs import paste_patterns as p
from flowdiag.parsers.logs.bodies import lines_of, with_messages
from flowdiag.parsers.logs.headers import header_of, json_record
from flowdiag.parsers.logs.pasted import Heading, Pasted

_MESSAGE: Final = 3000
_QUIET: Final = ("INFO", "DEBUG", "TRACE")


def vague_failures(data: bytes) -> Iterator[Pasted]:
    """Yield the lines that only mention a failure."""
    explains = False  # whether the paragraph explains failures in general
    is_healthy = False  # whether the line belongs to a record of healthy processes
    escaped = is_html(data)
    for offset, line in with_messages(lines_of(data)):
        head = prefix.parse(line)
        record = json_record(line, head)
        head = header_of(head) if record is None else record.head
        texts = _texts(head, (record.more or ()) if record is not None else (), escaped)
        if head.complete:
            is_healthy = is_harmless_record(head.logger, "".join(texts[:1]))
        for text in texts:
            explains = bool(text) and (explains or p.GENERAL.match(text) is not None)
            if explains or (not head.complete and p.MEANING.match(text) is not None):
                continue
            if is_healthy or (fact := _fact(head, text, first=offset == 0)) is None:
                continue
            yield _pasted(offset, head, text, fact)
            if head.complete:
                break


def _pasted(offset: int, head: prefix.Prefix, text: str, fact: str) -> Pasted:
    found = Pasted(offset, level=head.level, plain=True)
    found.local_us, found.utc_us, found.clock = head.local_us, head.utc_us, head.clock
    found.heading = Heading(offset, head.logger, text, None) if head.complete else None
    found.add(offset, fact[:_MESSAGE])
    return found


def _texts(head: prefix.Prefix, more: Sequence[str], escaped: bool) -> list[str]:
    """Return the message of a record and its lines, or each text in another line, without decoration.

    Args:
        head: the header of the line.
        more: further lines of a record in JSON.
        escaped: whether the text has HTML tags.
    """
    texts: list[str] = []
    for line in (head.text[head.begin : head.end], *more):
        for text in strip_decoration(line, escaped=escaped):
            if texts and texts[-1].endswith(":"):
                texts[-1] += f" {text}"
            else:
                texts.append(text)
    if not head.complete:
        return texts
    return [" ".join(texts), *texts] if len(texts) > 1 else texts


def _fact(head: prefix.Prefix, text: str, *, first: bool) -> str | None:
    """Return the part of a line that mentions a failure, or None.

    At INFO and below, vague wording counts only for an end.
    """
    line = failure_line(text, weak=True)
    if head.complete and head.level in _QUIET:
        return text if line is not None and (line.ends or not line.weak) else None
    ignored = is_harmless(text) or is_fallback(text)
    known = None if ignored else announced_failure(text)
    if line is not None:
        return known or p.fact_in(text, weak=True)
    if known is not None or ignored:
        return known
    if _has_kafka_code(text):
        return p.fact_in(text, weak=True)
    return _unknown_fact(head, text, first=first)


def _unknown_fact(head: prefix.Prefix, text: str, *, first: bool) -> str | None:
    """Return a record that names an exception, or a first line without its first letter that mentions a failure."""
    if head.complete:
        return text if p.NAMED.search(text) is not None else None
    return _with_lost_letter(text) if first else None


def _has_kafka_code(text: str) -> bool:
    """Return whether a line that is no question has the name of an error of Kafka, which needs no other words."""
    return not text.endswith("?") and any(code.family == "kafka" for code in codes_in(text))


def _with_lost_letter(text: str) -> str | None:
    """Return a failure whose first letter was lost when it was copied, with that letter, or None."""
    if _CUT.match(text) is None:
        return None
    texts = (letter + text for letter in ascii_uppercase)
    return next((one for one in texts if failure_line(one) or announced_failure(one)), None)


_CUT: Final = re.compile(r"[a-z]{2}")
