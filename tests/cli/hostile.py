"""Injection attempts, and stored reports full of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final

import msgspec

INJECTIONS: Final = (
    "\x1b[31mred\x1b[0m\x1b[2J\x1b[1;1H",
    "\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07",
    "\x1b]8;;https://texts.example\x1b\\click\x1b]8;;\x1b\\",
    "\x9b31mred\x9d0;title\x9c\x90q\x9c",
    "\u202eevil\u2066\u2069\u200f\u061c",
    "zero\u200bwidth\u2060\ufeff\xad\U000e0041",
    "a\rb\nc\x0bd\x0ce\x85f\u2028g\u2029h",
    "\x00\x07\x08\x7f",
    "\ue000private\ufffe\uffff\ufdd0\ufdef\U0001fffe\U0010ffff",
    "\n::error file=x,line=1::texts%0A::warning::x\n::set-output name=a::b",
    "%0A%0D%25::add-mask::x ##[error]texts",
    "]]><x/>&texts;<!--<![CDATA[<!DOCTYPE x>",
    "<script>alert(1)</script></script><img src=x onerror=alert(1)>\"' onload='x",
    '<a href="javascript:alert(1)">x</a></title></style></textarea>{{7*7}}{% raw %}${7*7}',
    "[texts](javascript:alert(1)) ![x](https://texts.example/x.png) <https://texts.example>",
    "https://texts.example/a www.texts.example ann@texts.example",
    "[ref]: https://texts.example 'x'\n\n[ref] [^1]\n\n[^1]: x",
    "# heading\n## heading\n- list\n1. list\n> quote\n```\ncode\n~~~\n---\n===\n    code",
    "| a | b |\n|---|---|\n| c | d | `e` ``f`` **g** _h_ ~~i~~ $x$ \\",
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0 +1 -1",
    "@here @channel <!here> <@U123> @everyone @ann #1 GH-1",
    "[bold]x[/bold] [link=https://texts.example]y[/link] [/] :smile:",
    "W" * 3000,
    "\u0301" * 200 + "字" * 300 + "👩‍👩‍👧" * 20,
    "",
    " ",
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT")
HARMLESS: Final = "plain words"

# Keys whose values are words of the contract, times or references, not text.
_CONTRACT: Final = frozenset(
    {"schema", "code", "severity", "kind", "verdict", "unit", "fingerprint", "format", "version"}
    | {"first", "last", "start", "end", "at", "from", "to", "since", "until", "time", "name"}
    | {
        "command",
        "role",
        "origin",
        "key",
        "findings",
        "competing",
        "confidence",
        "status",
        "state",
        "zone",
        "zone_from",
    }
)


def inject(report: Any, start: int, texts: Sequence[str] = INJECTIONS) -> bytes:
    """Return a stored report with an injection after, or instead of, every free-text value.

    Args:
        start: the number of the first injection; the others get the next numbers.
        texts: the injections.
    """
    document = msgspec.to_builtins(report, enc_hook=str.__str__)
    numbers = count(start)
    return json.dumps(_injected(document, texts, numbers, ())).encode()


def _injected(
    node: Any, texts: Sequence[str], numbers: Iterator[int], above: tuple[str, ...]
) -> Any:
    if isinstance(node, dict):
        return {key: _injected(value, texts, numbers, (*above, key)) for key, value in node.items()}
    if isinstance(node, list):
        return [_injected(item, texts, numbers, above) for item in node]
    if (
        not isinstance(node, str)
        or _TIME.match(node)
        or (above[-1] in _CONTRACT and not _is_name(above))
    ):
        return node
    number = next(numbers)
    text = texts[number % len(texts)]
    return f"{node[:12]} {text}" if number % 2 else text


def _is_name(above: tuple[str, ...]) -> bool:
    """Return whether `name` is the name of a job, task or application, not of a rule or a number."""
    return above[-1] == "name" and above[0] == "data"
