"""Builds the facts of `flowdiag memory` from rows, files and options, without Spark.

Start with `assemble_memory`. It may import `flowdiag.analyses.memory.model` and the facts, but no rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.knowledge.conditions import backend_of
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.assemble.buffers import buffers_of
from flowdiag.analyses.memory.assemble.collectors import with_usages
from flowdiag.analyses.memory.assemble.configured import processes_in_configurations, with_options
from flowdiag.analyses.memory.assemble.logged import processes_in_logs
from flowdiag.analyses.memory.assemble.managers import with_limits, with_rest, with_specs
from flowdiag.analyses.memory.facts import ConfigFile, Kill, MemoryFacts, MemoryProcess, Usage
from flowdiag.analyses.model.keys import Ref

Row = Mapping[str, Any]


def assemble_memory(
    rows: Sequence[Row],
    common: ClusterFacts,
    *,
    files: Sequence[ConfigFile] = (),
    kills: Sequence[Kill] = (),
    usages: Sequence[Usage] = (),
    names: Mapping[int, str] | None = None,
    given: Mapping[str, str] | None = None,
    version: str | None = None,
    container: bool | None = None,
    engine: str | None = None,
) -> MemoryFacts:
    """Build the facts from all inputs.

    Args:
        rows: rows of attempts, incidents and `measure.frames`.
        common: the result of `assemble` for the same rows: jobs, attempts, incidents, processes.
        files: configuration files.
        kills: from `kubectl`.
        usages: from the JVM's own logs.
        names: names of the inputs by index, which assign GC logs to processes.
        given: command-line options, which override those in files.
        version: Flink's version, from the command line.
        container: whether the processes run in containers, from the command line.
        engine: the engine of all logs, if they agree.
    """
    of_files: dict[str, str] = {}
    refs: dict[str, Ref] = {}
    for file in files:
        of_files.update(file.read.options)
        refs.update({key: Ref(file.source, at) for key, at in file.read.offsets.items()})
    from_user = dict(given or {})
    processes = processes_in_logs(rows, common.processes, version, container)
    processes = with_rest(processes, common, version)
    processes = with_limits(with_specs(processes, rows, version), rows)
    processes = [with_options(p, processes, of_files, refs, from_user) for p in processes]
    if of_files or from_user:
        versions = {process.version for process in processes if process.version}
        seen = versions.pop() if len(versions) == 1 else None
        processes += processes_in_configurations(
            of_files | from_user,
            refs,
            files,
            version or seen,
            container,
            {p.role for p in processes},
        )
    processes = with_usages([_with_usage(p, rows) for p in processes], usages, names or {})
    jobs = common.jobs
    return MemoryFacts(
        processes=tuple(sorted(processes, key=_order)),
        files=tuple(files),
        jobs=jobs,
        buffers=tuple(buffers_of(jobs, processes, rows)),
        kills=(*kills, *_operator_kills(rows)),
        writers=common.processes,
        backends=_backends(jobs, processes, rows),
        engine=engine,
    )


def _order(process: MemoryProcess) -> tuple[Any, ...]:
    return (
        process.role != "jobmanager",
        process.taskmanager or "",
        process.source if process.source is not None else 1 << 30,
        process.label or "",
    )


def _operator_kills(rows: Iterable[Row]) -> Iterator[Kill]:
    """Yield the containers that were killed for memory according to the Kubernetes Operator, each text once."""
    seen: set[str] = set()
    for row in rows:
        if row["what"] != "memory" or not (row["template"] or "").startswith("operator-"):
            continue
        fields = row["fields"] or {}
        text = fields.get("said", "").strip()
        if text in seen:
            continue
        seen.add(text)
        evicted = "evicted" in f"{fields.get('reason', '')} {text}".lower()
        yield Kill(
            reason="Evicted" if evicted else "OOMKilled",
            exit_code=None,
            pod=row["thread"],
            limit=None,
            text=text[:300],
            ref=Ref(row["source"], row["offset"]),
        )


def _with_usage(process: MemoryProcess, rows: Iterable[Row]) -> MemoryProcess:
    for row in rows:
        if row["what"] == "usage" and (row["source"], row["owner"]) == (
            process.source,
            process.label,
        ):
            most = row["most"]
            return replace(
                process,
                usage=Usage(
                    samples=row["n"],
                    first_us=row["first_us"],
                    last_us=row["last_us"],
                    heap_max=most * m.MIB if most and most > 0 else process.heap_max,
                    floors=tuple(int(floor) * m.MIB for floor in row["floors"]),
                    peak=(row["peak"] or 0) * m.MIB,
                    source=row["source"],
                    ref=Ref(row["source"], row["offset"]),
                ),
            )
    return process


def _backends(
    jobs: Iterable[JobFacts], processes: Iterable[MemoryProcess], rows: Iterable[Row]
) -> dict[str, str]:
    """Return the state backend by job ID, with the configured backend under `""`."""
    found: dict[str, str] = {}
    for job in jobs:
        text = job.setting("state.backend")
        if text and (kind := backend_of(text)):
            found[job.key.job_id] = kind
    for process in processes:
        text = process.configured.get("state.backend.type") or process.configured.get(
            "state.backend"
        )
        if text and (kind := backend_of(text)):
            found.setdefault("", kind)
    return found
