"""Options are not read as they are written.

What it reports
---------------
Keys that stand twice in a flat `flink-conf.yaml` (the last wins), lines that Flink skips (no blank behind
the colon, a tab, no value), and memory options that the version seen does not know any more.

Why it matters
--------------
The setting that somebody made is not in effect, and nothing fails.

How it decides
--------------
The file is read with the rules of Flink's own parsers. Removed options: `numberOfBuffers`, the heap
options and the fixed numbers of buffers from 2.0 on; the variables `FLINK_TM_…` of the start
scripts count up to 1.9 only.

What to do
----------
Keep one line per key, `key: value` with a blank; replace removed options by the new ones.

False alarms
------------
Equal values that stand twice are harmless and not reported.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import tried

_NOT_SET: Final = "(not set)"

# Removed in 2.0: key and what took its place (catalogue 7.1, 8.1).
_REMOVED: Final = {
    "taskmanager.heap.size": "taskmanager.memory.process.size",
    "taskmanager.heap.mb": "taskmanager.memory.process.size",
    "jobmanager.heap.size": "jobmanager.memory.process.size",
    "jobmanager.heap.mb": "jobmanager.memory.process.size",
    "taskmanager.network.numberOfBuffers": "taskmanager.memory.network.min",
    "taskmanager.network.memory.buffers-per-channel": "(fixed: 2)",
    "taskmanager.network.memory.floating-buffers-per-gate": "(fixed: 8)",
    "taskmanager.network.memory.max-buffers-per-channel": "(fixed: 10)",
    "taskmanager.network.memory.max-overdraft-buffers-per-gate": "(fixed: 20)",
}
# Read by nobody from 1.10 on.
_IGNORED: Final = {
    "taskmanager.memory.fraction": "taskmanager.memory.managed.fraction",
    "taskmanager.memory.off-heap": "(managed memory is always off-heap)",
    "taskmanager.memory.preallocate": _NOT_SET,
    # Variables of the start scripts of 1.9.
    "FLINK_TM_HEAP": "taskmanager.memory.process.size",
    "FLINK_TM_NET_BUF_MIN": "taskmanager.memory.network.min",
    "FLINK_TM_NET_BUF_MAX": "taskmanager.memory.network.max",
}


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding per file and kind of trouble, one per removed option."""
    for file in facts.files:
        if file.read.dialect == "flat":
            yield from _twice(file)
            yield from _skipped(file)
    yield from _removed(facts)


def _twice(file: h.ConfigFile) -> h.Iterator[h.Finding]:
    for duplicate in file.read.duplicates:
        if len(set(duplicate.values)) == 1:
            continue
        used = duplicate.values[-1]
        yield h.of_process(
            None,
            title=f"{duplicate.key} stands {len(duplicate.values)} times: {used} is in effect",
            cause="wrong-memory-options",
            rank=h.Rank.MECHANISM,
            option=duplicate.key,
            explain="Flink's flat parser takes the last value and says nothing; config.yaml of 1.19 and "
            "later is refused with a key that stands twice.",
            evidence=h.cite([(h.Ref(file.source, duplicate.offset), None)]),
            actions=(
                h.advised(
                    "wrong-memory-options",
                    "one-line",
                    option=duplicate.key,
                    current=" / ".join(duplicate.values),
                    proposed=h.accepted(duplicate.key, used),
                ),
            ),
        )


def _skipped(file: h.ConfigFile) -> h.Iterator[h.Finding]:
    skipped = file.read.skipped
    if not skipped:
        return
    first = skipped[0]
    lines = h.fmt.plural(len(skipped), "line")
    yield h.of_process(
        None,
        title=f"Flink skips {lines} of {h.fmt.shorten(file.name, 50)}, "
        f"first line {first.line}: {h.fmt.shorten(first.text, 50)}",
        cause="wrong-memory-options",
        rank=h.Rank.MECHANISM,
        explain="A pair needs a colon with a blank behind it, and a value; a tab is no blank.",
        count=len(skipped),
        evidence=h.cite((h.Ref(file.source, line.offset), None) for line in skipped),
        actions=(h.advised("wrong-memory-options", "blank"),),
    )


def _removed(facts: h.MemoryFacts) -> h.Iterator[h.Finding]:
    seen: set[str] = set()
    for process in facts.processes:
        version = h.version_of(process.version)
        if version is None:
            continue
        gone = (_IGNORED if version >= (1, 10) else {}) | (_REMOVED if version >= (2, 0) else {})
        for key in gone:
            if key not in process.configured or key in seen:
                continue
            seen.add(key)
            renamed = "." in gone[key]
            yield h.of_process(
                None,
                title=f"{key} has no effect in Flink {version[0]}.{version[1]}",
                cause="wrong-memory-options",
                rank=h.Rank.MECHANISM,
                option=key,
                explain="The option was removed; Flink ignores it without a word.",
                evidence=h.cite([(process.refs.get(key), None)]),
                actions=(_instead(process, key, gone[key], renamed=renamed),),
            )


def _instead(process: h.MemoryProcess, key: str, place: str, *, renamed: bool) -> h.Action:
    """The option that took its place with the same value, if Flink takes it; else away with it."""
    value = process.configured[key]
    if not renamed:
        why = place.strip("()") if place != _NOT_SET else "nothing took its place"
        return h.advised(
            "wrong-memory-options", "remove", option=key, current=value, key=key, why=why
        )
    fits = h.accepted(place, value, h.version_of(process.version))
    takes = fits is not None and tried(process, {place: fits}) is not None
    return h.advised(
        "wrong-memory-options",
        "replace",
        option=place,
        current=process.configured.get(place),
        proposed=fits if takes else None,
        version=process.version,
        key=place,
        old=f"{key} ({value})",
    )


RULE: Final = h.Rule("MM102", judge, whole=True, causes=("wrong-memory-options",))
