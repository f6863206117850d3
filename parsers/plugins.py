"""Finds plug-ins: rules and messages that other packages add to flowdiag through entry points.

| group | object behind the entry point | used by |
|---|---|---|
| `flowdiag.rules` | one or more rules for the topic with the name of the entry point | `analyses.topics` |
| `flowdiag.messages` | a message catalogue: TOML text, or a file with it | `parsers.catalogue` |

flowdiag skips a plug-in that it cannot use, and reports it once with the name of its package. Executors of a cluster
lack the user's packages, so flowdiag sends them the text of the catalogues.
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
    """A loaded entry point of an installed package.

    Args:
        package: name and version of the package.
        name: name of the entry point.
        loaded: the object behind the entry point.
    """

    package: str
    name: str
    loaded: Any


def plugins(group: str) -> Iterator[Plugin]:
    """Yield the plug-ins of a group that can be imported, sorted by package and name.

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
    """Return the name and version of the package that declares an entry point."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"


def skip_plugin(package: str, why: str) -> None:
    """Record that flowdiag cannot use a part of a package.

    Args:
        package: name and version of the package.
        why: one clause that describes the part and the reason.
    """
    _skipped[f"plug-in {package} is skipped: {why}"] = None


def skipped_plugins() -> tuple[str, ...]:
    """Return one sentence per plug-in that this process has skipped so far."""
    return tuple(_skipped)


def error_line(error: BaseException) -> str:
    """Return the type and message of an exception as one printable line."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return f"{type(error).__name__}: {' '.join(text.split())[:200]}"


@dataclass(frozen=True, slots=True)
class Messages:
    """The message catalogue of a package, as TOML text in the format of `formats/flink-*.toml`."""

    package: str
    text: str


@functools.cache
def _installed_messages() -> tuple[Messages, ...]:
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
    """Return the message catalogues sent to this process or, if none were sent, those of installed plug-ins."""
    return _installed_messages() if _sent is None else _sent


def use_messages(sent: tuple[Messages, ...]) -> None:
    """Use only these catalogues in this process, which parses for another process."""
    global _sent
    _sent = sent
