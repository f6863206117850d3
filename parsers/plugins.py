"""What packages of others add to flowdiag, found by their entry points.

| group | what an entry point names | who reads it |
|---|---|---|
| `flowdiag.rules` | a rule, or several, for the topic that the entry point is called by | `analyses.topics` |
| `flowdiag.messages` | a message catalogue: TOML text, or a file that holds it | `parsers.catalogue` |

A plug-in that cannot be used is left out and told of once, by the name of its package; everything else
goes on. Executors of a cluster lack the packages of the user: they are sent the text of the catalogues.
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

_left_out: Final[dict[str, None]] = {}


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point of a package that somebody installed.

    Args:
        package: as people call it: its name and version.
        name: of the entry point.
        loaded: the object that it names.
    """

    package: str
    name: str
    loaded: Any


def plugins(group: str) -> Iterator[Plugin]:
    """The plug-ins of a group, by package and name; those that cannot be imported are left out.

    Args:
        group: `RULES` or `MESSAGES`.
    """
    from importlib.metadata import (
        entry_points,  # a costly import, for those who list rules or parse
    )

    for entry in sorted(entry_points(group=group), key=lambda each: (package_of(each), each.name)):
        try:
            # Whatever the import of somebody else's code raises.
            yield Plugin(package_of(entry), entry.name, entry.load())
        except Exception as error:  # noqa: BLE001
            skip_plugin(package_of(entry), f"{entry.value} cannot be imported: {error_line(error)}")


def package_of(entry: EntryPoint) -> str:
    """The package that brings an entry point, with its version."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"


def skip_plugin(package: str, why: str) -> None:
    """Remember that something of a package is not used.

    Args:
        package: with its version.
        why: one clause that names what of it.
    """
    _left_out[f"plug-in {package} is left out: {why}"] = None


def skipped_plugins() -> tuple[str, ...]:
    """A sentence on each plug-in that this process could not use, as far as it has tried."""
    return tuple(_left_out)


def error_line(error: BaseException) -> str:
    """What an exception says, in one line that a terminal can take."""
    text = "".join(c if c.isprintable() else " " for c in str(error))
    return f"{type(error).__name__}: {' '.join(text.split())[:200]}"


@dataclass(frozen=True, slots=True)
class Messages:
    """A message catalogue of a package; the text is TOML, as in `formats/flink-*.toml`."""

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
        except Exception as error:  # noqa: BLE001 - no file, or no object that is one
            skip_plugin(plugin.package, f"{plugin.name} holds no messages: {error_line(error)}")
            continue
        yield Messages(plugin.package, text)


_sent: tuple[Messages, ...] | None = None


def messages() -> tuple[Messages, ...]:
    """The catalogues of plug-ins: those that were sent to this process, else those installed here."""
    return _found() if _sent is None else _sent


def use_messages(sent: tuple[Messages, ...]) -> None:
    """Take these catalogues and no others: for processes that parse for another one."""
    global _sent
    _sent = sent
