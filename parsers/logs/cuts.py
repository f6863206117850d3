"""Describes failures whose exception is cut off, from stack frames, the record above, or a notebook's header."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.parsers.lines.failure_lines import failure_line
from flowdiag.parsers.logs import paste_patterns as p
from flowdiag.parsers.logs.pasted import Pasted

_MESSAGE: Final = 3000
_AT: Final = re.compile(r"\s{0,40}at (?:[\w.$@-]{0,80}/{1,2}){0,2}(\S{3,300}\(.{1,120}\))")


def describe_cut_failure(block: Pasted) -> None:
    """Replace the missing exception of a failure with a description, if the text allows. Modifies `block`."""
    offset, text = block.offset, None
    if block.python_trace.frame is not None:
        text = f"Python traceback without its last line, at {block.python_trace.frame}"
    elif block.heading is not None and _reports_failure(block):
        offset, text = block.heading.offset, block.heading.message
    elif block.notebook is not None:
        error, _, code = block.notebook.partition(", ")
        text = ", ".join(filter(None, (f"{error} of a notebook without its last line", code)))
    elif block.level is None and (frames := _frames_of(block)):
        block.headless = True
        text = f"Stack trace without its first line, at {', '.join(frames)}"
    if text is not None:
        block.plain = True
        block.add(offset, text[:_MESSAGE])


def read_notebook(block: Pasted, bare: str) -> bool:
    """Read a line of code in a notebook's traceback, first the cell's. Return whether the line was one."""
    code = p.NOTEBOOK_CODE.match(bare) if block.notebook else None
    if code is None:
        return False
    if ", at " not in (block.notebook or ""):
        block.notebook = f"{block.notebook}, at `{code['code'].strip()}`"
    return True


def _reports_failure(block: Pasted) -> bool:
    """Return whether the record above reports a failure even without an exception."""
    text = block.heading.message if block.heading is not None else ""
    return bool(text) and (block.level in p.GRAVE or failure_line(text) is not None)


def _frames_of(block: Pasted) -> list[str]:
    """Return the topmost frames of a stack trace that lacks its exception. Empty for other texts."""
    found = [frame[1] for line in block.lines if (frame := _AT.match(line)) is not None]
    return found[:2] if len(found) > 1 and len(found) >= block.frames - 1 else []
