"""Removes secrets and control characters from the text in reports.

Log text is untrusted: it contains logged passwords, terminal escapes, and characters that reorder the visible text.
`clean` is applied to all log text that enters a report.
"""

from __future__ import annotations

import json
import re
from typing import Final, TypeVar

import msgspec

from flowdiag.analyses.model.fmt import shorten
from flowdiag.parsers.secrets import mask_secrets

__all__ = ["clean", "mask_secrets", "printable", "visible_json", "with_clean_text"]

_TERMINAL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])|\x9b[0-?]*[ -/]*[@-~]"
)
# Noncharacters: the last two code points of every plane, and 32 more. HTML does not allow them, and XML 1.0 only some.
_NONCHARACTERS: Final = "\ufdd0-\ufdef" + "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
# DEL, C1; zero-width and bidirectional marks, line separators, byte order mark, surrogates, tags
_INVISIBLE: Final = (
    "\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    f"\ud800-\udfff\U000e0000-\U000e007f{_NONCHARACTERS}"
)
_CONTROL = re.compile(f"[\x00-\x08\x0a-\x1f{_INVISIBLE}]")
_IN_JSON = re.compile(f"[{_INVISIBLE}]")


def printable(text: str) -> str:
    r"""Drop terminal sequences, and escape every other control or reordering character.

    >>> printable("\x1b[31mred\x1b[0m \u202eevil\x00\tend")
    'red \\u202eevil\\x00 end'
    """
    text = _TERMINAL.sub("", text).replace("\t", " ")
    return _CONTROL.sub(lambda hit: _escape(hit.group()), text)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible_json(document: str) -> str:
    r"""Escape the invisible characters of a JSON document, so that it is safe to display.

    >>> visible_json('{"a":"\u202eb"}')
    '{"a":"\\u202eb"}'
    """
    return _IN_JSON.sub(lambda hit: json.dumps(hit.group())[1:-1], document)


def clean(text: str, limit: int = 500) -> str:
    """Mask secrets and escape control characters in log text, and truncate it to `limit` characters."""
    # Keep the line breaks until secrets are masked, because the value of a key may be on the next line.
    text = "\n".join(printable(line) for line in text.split("\n"))
    end = _safe_cut(text)
    if end is not None:
        masked = printable(mask_secrets(text[:end])).strip()
        if len(masked) > limit:
            return shorten(masked, limit)
    return shorten(printable(mask_secrets(text)).strip(), limit)


Struct = TypeVar("Struct", bound=msgspec.Struct)


def with_clean_text(struct: Struct, *fields: str) -> Struct:
    """Return a copy of a struct in which the given text fields are cleaned."""
    values = {name: getattr(struct, name) for name in fields}
    changes = {name: clean(text) for name, text in values.items() if isinstance(text, str)}
    return msgspec.structs.replace(struct, **changes) if changes else struct


# A REST response is one line of many kilobytes. Searching all of it for secrets would take most of the time
# that citing it takes.
_LONG: Final = 2048


def _safe_cut(text: str) -> int | None:
    """Return where a long text can be cut without changing how the part before is masked, or None.

    A secret ends at a comma, or is recognized without its end (in quotes, or a private key). Only credentials in a URL
    depend on later text, the `@`, which may be far away but has no space before it.
    """
    if len(text) <= _LONG:
        return None
    marks = " " if "@" in text and "://" in text[:_LONG] else " ,"
    end = max(text.rfind(mark, _LONG // 2, _LONG) for mark in marks)
    return end if end > 0 else None
