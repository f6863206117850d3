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
configuration file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import ConfigFile, MemoryFacts, MemoryProcess
from flowdiag.analyses.memory.options import derive
from flowdiag.analyses.memory.words import process_subject, process_text
from flowdiag.analyses.rule import Limits, Rule


def judge(facts: MemoryFacts, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per process whose options do not fit, and per file that cannot be read."""
    for file in facts.files:
        if file.read.error is not None:
            yield _unreadable(file)
    for process in facts.processes:
        derived = process.derived
        # What runs was not refused: its options are only known in part.
        if derived is not None and derived.error and not process.observed:
            yield _refused(process, derived)


def _unreadable(file: ConfigFile) -> Finding:
    error = file.read.error or ""
    cited = cite(
        [((file.source, duplicate.offset), None) for duplicate in file.read.duplicates]  # type: ignore[misc]
    )
    return Finding(
        job=None,
        severity=Severity.CRITICAL,
        state=State.ONGOING,
        subject=process_subject(None),
        title=f"Flink cannot read {j.shorten(file.name, 60)}: {j.shorten(error, 90)}",
        why=f"the file is no valid configuration: {j.shorten(error, 120)}",
        cause="wrong-memory-options",
        rank=Rank.ROOT_CAUSE,
        explain="Since 1.19 config.yaml is YAML 1.2: keys must not stand twice and tabs must not indent. "
        "Flink ends at once with such a file.",
        evidence=cited,
        actions=(Action(text="Mend the file, then start again", restart_needed=True),),
    )


def _refused(process: MemoryProcess, derived: m.Derivation) -> Finding:
    said = derived.error[0]
    keys = [key for key in process.configured if key in m.MEMORY_KEYS]
    cited = cite((process.refs.get(key), None) for key in keys)
    return Finding(
        job=None,
        severity=Severity.CRITICAL,
        state=State.ONGOING,
        subject=process_subject(process),
        title=f"{process_text(process)} cannot start: {j.shorten(said, 110)}",
        why=j.shorten(derived.error[-1] if len(derived.error) > 1 else said, 160),
        cause="wrong-memory-options",
        rank=Rank.ROOT_CAUSE,
        option=_option_in(said),
        explain=" ".join(dict.fromkeys(derived.error)),
        measurements=tuple(
            Measurement(name=key, value=process.configured[key]) for key in sorted(keys)
        )[:12],
        evidence=cited,
        actions=tuple(_fixes(process, said)),
    )


def _option_in(text: str) -> str | None:
    return next((key for key in sorted(m.MEMORY_KEYS, key=len, reverse=True) if key in text), None)


def _fixes(process: MemoryProcess, said: str) -> Iterator[Action]:
    """Changes that the model accepts, the smallest first."""
    known = {k: v for k, v in process.configured.items() if k in m.MEMORY_KEYS}
    total = f"{process.role}.memory.process.size"
    totals = [key for key in (total, f"{process.role}.memory.flink.size") if key in known]
    version = process.version
    if "Cannot read memory size" in said or "Could not parse" in said:
        yield Action(
            text="Write a whole number with a unit: b, k, m, g or t, without quotes in flink-conf.yaml",
            option=_option_in(said),
            current=known.get(_option_in(said) or ""),
            restart_needed=True,
        )
        return
    for key, text in known.items():
        if key in totals:
            continue
        without = {k: v for k, v in known.items() if k != key}
        if _accepted(process, without):
            yield Action(
                text=f"Leave {key} out: Flink derives it",
                option=key,
                current=text,
                proposed="(not set)",
                restart_needed=True,
            )
            break
    if len(totals) > 1:
        for key in totals:
            without = {k: v for k, v in known.items() if k != key}
            if _accepted(process, without):
                yield Action(
                    text=f"Keep one total only: leave {key} out",
                    option=key,
                    current=known[key],
                    proposed="(not set)",
                    restart_needed=True,
                )
                return
    key = totals[0] if totals else total
    start = _size_of(known.get(key)) or 512 * m.MIB
    for step in range(1, 1025):
        size = -(-start // (64 * m.MIB)) * 64 * m.MIB + step * 64 * m.MIB
        if _accepted(process, {**known, key: m.as_option(size)}):
            yield Action(
                text=f"{'Raise' if key in known else 'Set'} the total"
                + ("" if version else " (computed for the newest version)"),
                option=key,
                current=known.get(key),
                proposed=m.as_option(size),
                restart_needed=True,
                verify="flowdiag memory with the new value derives all pools",
            )
            return


def _size_of(text: str | None) -> int | None:
    try:
        return m.parse_size(text) if text else None
    except m.MemoryOptionError:
        return None


def _accepted(process: MemoryProcess, options: dict[str, str]) -> bool:
    derived = derive(process.role, options, process.version, process.container)
    return derived is not None and derived.memory is not None


RULE: Final = Rule("MM101", judge, whole=True)
