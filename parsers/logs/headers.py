"""Reads the headers of lines in pasted text: those of JSON records, and those of an unknown layout."""

from __future__ import annotations

from dataclasses import replace

from flowdiag.parsers.lines import prefix
from flowdiag.parsers.logs import paste_patterns as p
from flowdiag.parsers.logs.records import Record, open_record


def json_record(line: str, head: prefix.Prefix) -> Record | None:
    """Return the record in a JSON object on the line, or None for other lines."""
    if head.complete or not head.text.startswith("{", head.inner):
        return None
    record = open_record(line)
    return record if record.json else None


def header_of(head: prefix.Prefix) -> prefix.Prefix:
    """Find the level and message in a header of unknown layout. Other headers are returned unchanged."""
    if head.dated and head.level is not None and not head.complete:
        named = p.LOGGER.match(head.text, head.begin, head.begin + 400)
        if named is None:
            return replace(head, complete=True)
        return replace(head, logger=named["logger"], begin=named.end(), complete=True)
    if head.complete:
        return head
    found = p.LOOSE_HEADER.match(head.text, head.inner, head.inner + 4096)
    if found is None and head.dated:
        found = p.DATED_LEVEL.match(head.text, head.begin, head.begin + 4096)
    if found is None:
        return head
    level = prefix.load_layouts().levels.get(found["level"], found["level"])
    return replace(
        head,
        level=level,
        logger=found["logger"] or None,
        begin=found.start("message"),
        complete=True,
    )
