"""Whose log of the garbage collector it is: it names no process itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from flowdiag.analyses.memory.facts import MemoryProcess, Usage

_ENDING: Final = re.compile(r"\.(?:log|txt|out|current)(?:\.\w{1,12})*\Z", re.IGNORECASE)
_NOBODY: Final = re.compile(r"(?:gc|gclog|verbose|jvm|java|log|pid\d*|\d+)", re.IGNORECASE)
_SHORTEST: Final = 3  # letters of a name


def with_usages(
    processes: Sequence[MemoryProcess], usages: Sequence[Usage], names: Mapping[int, str]
) -> list[MemoryProcess]:
    """The processes with what logs of the garbage collector tell; a log of nobody is a process of its own.

    One log and one TaskManager belong together whatever they are called.

    Args:
        processes: of logs, answers and configurations.
        usages: one per log of a collector.
        names: of all inputs, by index.
    """
    found = [*processes]
    workers = [i for i, p in enumerate(found) if p.role == "taskmanager" and p.usage is None]
    if len(usages) == 1 and len(workers) == 1:
        found[workers[0]] = replace(found[workers[0]], usage=usages[0])
        return found
    for usage in usages:
        place = _owner(names.get(usage.source, ""), found, names)
        if place is None or found[place].usage is not None:
            found.append(MemoryProcess(role="unknown", source=usage.source, usage=usage))
        else:
            found[place] = replace(found[place], usage=usage)
    return found


def _owner(name: str, processes: Sequence[MemoryProcess], names: Mapping[int, str]) -> int | None:
    """The one process that shares its name with a file, else the only one whose log lies beside it."""
    folder = _folder(name)
    word = name_in(name)
    logs = {i: names.get(p.source, "") for i, p in enumerate(processes) if p.source is not None}
    fits: list[int] = []
    if word is not None:
        whole = re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.IGNORECASE)
        fits = [
            place
            for place, process in enumerate(processes)
            if any(map(whole.search, _called(process, logs.get(place, ""))))
        ]
    if not fits:
        fits = [place for place, log in logs.items() if log and _folder(log) == folder]
    return fits[0] if len(fits) == 1 else None


def _called(process: MemoryProcess, log: str) -> Iterator[str]:
    yield re.split(r"[/\\!]", log)[-1]
    yield process.taskmanager or ""
    yield process.host or ""


def _folder(name: str) -> str:
    return "/".join(re.split(r"[/\\!]", name)[:-1])


def name_in(path: str) -> str | None:
    """The name of a process in that of a collector's log; None where it says nothing.

    >>> [name_in(path) for path in ("logs/gc-worker-3.log", "tm-1/gc.log.0", "worker-3_gc.log", "gc_pid7.log")]
    ['worker-3', None, 'worker-3', None]
    """
    base = _ENDING.sub("", re.split(r"[/\\!]", path)[-1])
    parts = re.split(r"([-_.])", base)
    while parts and ((_NOBODY.fullmatch(parts[0]) and len(parts) > 1) or parts[0] in "-_."):
        parts.pop(0)
    while parts and (parts[-1].lower() in ("gc", "gclog", "log") or parts[-1] in "-_."):
        parts.pop()
    word = "".join(parts)
    nobody = len(word) < _SHORTEST or _NOBODY.fullmatch(word) is not None
    return None if nobody else word
