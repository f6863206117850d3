"""Flink refuses these memory options.

What it reports
---------------
Options of a TaskManager or JobManager that contradict each other or cannot be read: Flink's own words for
it, which option to change, and a value with which it starts. Also configuration files that Flink cannot
read at all.

Why it matters
--------------
The process ends before it logs anything: on Kubernetes and YARN that looks like a worker that never
registers.

How it decides
--------------
The options are put through the same arithmetic that Flink's start scripts use, for the version seen (the
newest known where none is). `config.yaml` is refused for keys that stand twice and for tabs.

What to do
----------
Set one total (`…memory.process.size`, or `…memory.flink.size`) and as few parts as possible; Flink derives
the rest.

False alarms
------------
Options that are given in other ways (environment variables, `-D` of a deployment script) are not seen in a
configuration file. A process that writes a log got past this check, and a fragment of its log lists some of its
options only: those are not judged.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.options import derive
from flowdiag.parsers.units import size_bytes

_STEP: Final = 64 * h.model.MIB
_MOST_STEPS: Final = 1024
_MOST_SHOWN: Final = 12
_UNREADABLE: Final = ("Cannot read memory size", "Could not parse")


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per process whose options do not fit, and per file that cannot be read."""
    for file in facts.files:
        if file.read.error is not None:
            yield _unreadable(file, file.read.error)
    for process in facts.processes:
        # What runs was not refused: its options are only known in part.
        runs = process.observed or _listed(process, facts)
        if process.derived is not None and process.derived.error and not runs:
            yield _refused(process, process.derived.error)


def _listed(process: h.MemoryProcess, facts: h.MemoryFacts) -> bool:
    """Whether a log is what tells the options of a process, and no file."""
    files = {file.source for file in facts.files}
    keys = [key for key in process.configured if key in h.model.MEMORY_KEYS]
    # What has no place was given on the command line.
    return all(key in process.refs and process.refs[key].source not in files for key in keys)


def _unreadable(file: h.ConfigFile, error: str) -> h.Finding:
    return h.of_process(
        None,
        severity=h.Severity.CRITICAL,
        title=f"Flink cannot read {h.fmt.shorten(file.name, 60)}: {h.fmt.shorten(error, 90)}",
        why=f"the file is no valid configuration: {h.fmt.shorten(error, 120)}",
        cause="wrong-memory-options",
        rank=h.Rank.ROOT_CAUSE,
        explain="Since 1.19 config.yaml is YAML 1.2: keys must not stand twice and tabs must not indent. "
        "Flink ends at once with such a file.",
        evidence=h.cite((h.Ref(file.source, each.offset), None) for each in file.read.duplicates),
        actions=(h.advised("wrong-memory-options", "fix-file"),),
    )


def _refused(process: h.MemoryProcess, errors: tuple[str, ...]) -> h.Finding:
    said = errors[0]
    keys = [key for key in process.configured if key in h.model.MEMORY_KEYS]
    return h.of_process(
        process,
        severity=h.Severity.CRITICAL,
        title=f"{h.process_text(process)} cannot start: {h.fmt.shorten(said, 110)}",
        why=h.fmt.shorten(errors[-1], 160),
        cause="wrong-memory-options",
        rank=h.Rank.ROOT_CAUSE,
        option=_option_in(said),
        explain=" ".join(dict.fromkeys(errors)),
        measurements=tuple(h.measurement(key, process.configured[key]) for key in sorted(keys))[
            :_MOST_SHOWN
        ],
        evidence=h.cite((process.refs.get(key), None) for key in keys),
        actions=tuple(_fixes(process, said)),
    )


def _option_in(text: str) -> str | None:
    longest_first = sorted(h.model.MEMORY_KEYS, key=len, reverse=True)
    return next((key for key in longest_first if key in text), None)


def _fixes(process: h.MemoryProcess, said: str) -> h.Iterator[h.Action]:
    """Changes that the model accepts, the smallest first."""
    known = {k: v for k, v in process.configured.items() if k in h.model.MEMORY_KEYS}
    total = f"{process.role}.memory.process.size"
    totals = [key for key in (total, f"{process.role}.memory.flink.size") if key in known]
    if any(words in said for words in _UNREADABLE):
        option = _option_in(said)
        text = known.get(option or "")
        size = size_bytes(text)
        yield h.advised(
            "wrong-memory-options",
            "unit",
            option=option,
            current=text,
            proposed=h.model.as_option(int(size)) if size and _whole(option, process) else None,
            version=process.version,
        )
        return
    yield from _without_one(process, known, "leave-out", [k for k in known if k not in totals])
    if len(totals) > 1:
        one_total = [*_without_one(process, known, "one-total", totals)]
        yield from one_total
        if one_total:
            return
    yield from _larger(process, known, totals[0] if totals else total)


def _whole(option: str | None, process: h.MemoryProcess) -> bool:
    """Whether the option takes a size with a unit."""
    return (
        option is not None and h.accepted(option, "1m", h.version_of(process.version)) is not None
    )


def _without_one(
    process: h.MemoryProcess, known: dict[str, str], remedy: str, keys: list[str]
) -> h.Iterator[h.Action]:
    """The first of the options without which the model accepts the others."""
    for key in keys:
        if _accepted(process, {k: v for k, v in known.items() if k != key}):
            yield h.advised("wrong-memory-options", remedy, option=key, current=known[key], key=key)
            return


def _larger(process: h.MemoryProcess, known: dict[str, str], key: str) -> h.Iterator[h.Action]:
    """The smallest total, in steps of 64 MB, that the model accepts."""
    start = -(-(_size_of(known.get(key)) or 512 * h.model.MIB) // _STEP) * _STEP
    for step in range(1, _MOST_STEPS + 1):
        size = h.model.as_option(start + step * _STEP)
        if _accepted(process, {**known, key: size}):
            yield h.advised(
                "wrong-memory-options",
                "total",
                option=key,
                current=known.get(key),
                proposed=size,
                version=process.version,
                change="Raise" if key in known else "Set",
                note="" if process.version else " (computed for the newest version)",
            )
            return


def _size_of(text: str | None) -> int | None:
    try:
        return h.model.parse_size(text) if text else None
    except h.model.MemoryOptionError:
        return None


def _accepted(process: h.MemoryProcess, options: dict[str, str]) -> bool:
    derived = derive(process.role, options, process.version, process.container)
    return derived is not None and derived.memory is not None


RULE: Final = h.Rule("MM101", judge, whole=True, causes=("wrong-memory-options",))
