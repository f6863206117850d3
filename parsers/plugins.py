"""Plug-ins: rules and messages that other packages add to flowdiag through entry points.

| group | object of the entry point | reader |
|---|---|---|
| `flowdiag.rules` | one or more rules for the topic with the name of the entry point | `analyses.topics` |
| `flowdiag.messages` | a message catalogue: TOML text, or a file with it | `parsers.catalogue` |

flowdiag skips a plug-in that it cannot use and reports it once, by package name. Everything else continues.
The executors of a cluster do not have the user's packages: flowdiag sends them the text of the catalogues.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

RULES: Final = "flowdiag.rules"
MESSAGES: Final = "flowdiag.messages"

_skipped: Final[dict[str, None]] = {}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of an installed package.

    Args:
        package: name and version of the package.
        name: of the entry point.
        loaded: object of the entry point.
    """

    package: str
    name: str
    loaded: Any


def plugins(group: str) -> Iterator[Plugin]:
    """Yield the importable plug-ins of a group, sorted by package and name.

    Args:
        group: `RULES` or `MESSAGES`.
    """
    from importlib.metadata import (
        entry_points,  # a slow import, needed only to list rules or to parse
    )

    for entry in sorted(entry_points(group=group), key=lambda each: (package_of(each), each.name)):
        try:
            # Importing third-party code can raise anything.
            yield Plugin(package_of(entry), entry.name, entry.load())
        except Exception as error:  # noqa: BLE001
            skip_plugin(package_of(entry), f"{entry.value} cannot be imported: {error_line(error)}")


def package_of(entry: EntryPoint) -> str:
    """Return name and version of the package of an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"


def skip_plugin(package: str, why: str) -> None:
    """Record that a part of a package is not used.

    Args:
        package: with its version.
        why: one clause that names the part.
    """
    _skipped[f"plug-in {package} is skipped: {why}"] = None


def skipped_plugins() -> tuple[str, ...]:
    """Return one sentence per plug-in that this process has skipped so far."""
    return tuple(_skipped)


def error_line(error: BaseException) -> str:
    """Return type and message of an exception in one printable line."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return f"{type(error).__name__}: {' '.join(text.split())[:200]}"


@dataclass(frozen=True, slots=True)
class Messages:
    """The message catalogue of a package; the text is TOML, as in `formats/flink-*.toml`."""

    package: str
    text: str


@functools.cache
def _found() -> tuple[Messages, ...]:
    return tuple(_read())


def _read() -> Iterator[Messages]:
    for plugin in plugins(MESSAGES):
        text = plugin.loaded
        try:
            if not isinstance(text, str):
                text = text.read_text(encoding="utf-8")
        except Exception as error:  # noqa: BLE001 - not a readable file
            skip_plugin(plugin.package, f"{plugin.name} contains no messages: {error_line(error)}")
            continue
        yield Messages(plugin.package, text)


_sent: tuple[Messages, ...] | None = None


def messages() -> tuple[Messages, ...]:
    """Return the catalogues of plug-ins: those sent to this process, else those installed here."""
    return _found() if _sent is None else _sent


def use_messages(sent: tuple[Messages, ...]) -> None:
    """Use only these catalogues, in a process that parses for another process."""
    global _sent
    _sent = sent
