"""Renders `--show-config`: every setting with its source, as a valid `flowdiag.toml` or JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from flowdiag.cli.settings import (
    FILE,
    NOT_IN_FILE,
    EffectiveSettings,
    Format,
    GivenValue,
    Origin,
)

_WHERE: Final = 34  # column of the comments


def render_settings(found: EffectiveSettings) -> str:
    if found.settings.format is Format.JSON:
        document = msgspec.json.encode(_document(found))
        return msgspec.json.format(document, indent=2).decode() + "\n"
    return "".join(f"{line}\n" for line in _lines(found))


def _values(found: EffectiveSettings) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(found.settings)
    return {key: value for key, value in values.items() if key != "thresholds"}


def _lines(found: EffectiveSettings) -> Iterator[str]:
    if found.file is None:
        yield f"# no settings file: {FILE} is not in the working directory"
    else:
        yield f"# settings file: {found.file}"
    for key, value in _values(found).items():
        given = found.given.get(key)
        where = "default" if given is None else given.where
        if value is None:
            yield f"{f'# {key}: not set':<{_WHERE}}# {where}"
            continue
        # Settings of a single run are not allowed in a file.
        text = f"{'# ' if key in NOT_IN_FILE else ''}{key} = {_toml(value)}"
        yield f"{text:<{_WHERE}}# {where}"
    thresholds = found.given.get("thresholds")
    for rule, limits in found.settings.thresholds.items():
        yield from ("", f"[thresholds.{_key(rule)}]")
        for name, limit in limits.items():
            text = f"{_key(name)} = {limit:g}"
            yield f"{text:<{_WHERE}}# {thresholds.where if thresholds else 'default'}"


def _toml(value: Any) -> str:
    """Format a setting as TOML, which equals JSON for these types.

    >>> _toml(True), _toml("a\\"b"), _toml(["CP1"]), _toml(5)
    ('true', '"a\\\\"b"', '["CP1"]', '5')
    """
    return msgspec.json.encode(value).decode()


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() else _toml(name)


def _document(found: EffectiveSettings) -> dict[str, Any]:
    settings = {
        key: _with_origin(value, found.given.get(key)) for key, value in _values(found).items()
    }
    thresholds = found.given.get("thresholds")
    return {
        "file": found.file,
        "settings": settings,
        "thresholds": {
            rule: {name: _with_origin(limit, thresholds) for name, limit in limits.items()}
            for rule, limits in found.settings.thresholds.items()
        },
    }


def _with_origin(value: Any, given: GivenValue | None) -> dict[str, Any]:
    return {
        "value": value,
        "origin": Origin.DEFAULT if given is None else given.origin,
        "where": None if given is None else given.where,
    }
