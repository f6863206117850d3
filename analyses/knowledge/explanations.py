"""Loads the sentences of findings that depend on the situation, from `explanations.toml`.

The explanation of a cause is in `CAUSES`. Rules without a cause, or with additional explanations, have their texts here.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


@cache
def tables() -> dict[str, dict[str, str]]:
    """Return the texts of each rule, by its code."""
    text = Path(__file__).with_name("explanations.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def text(name: str, /, **fill: str | int) -> str:
    """Return a rule's text by name, such as `CP106.only-triggers`, with `fill` for the placeholders in braces."""
    code, _, word = name.partition(".")
    found = tables()[code][word]
    return found.format(**fill) if fill else found
