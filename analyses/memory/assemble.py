"""From rows, files and options to the facts that the rules of `flowdiag memory` judge; no Spark here."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from flowdiag.analyses.flink import buffers as b
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.keys import Process, Ref
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import (
    BufferNeeds,
    ConfigFile,
    Kill,
    MemoryFacts,
    MemoryProcess,
    Usage,
)
from flowdiag.analyses.memory.options import ENVIRONMENT, TOTALS, derive
from flowdiag.parsers.rows import Event

Row = Mapping[str, Any]

# What the start scripts pass on by themselves; other dynamic options are the user's.
_BY_SCRIPTS: Final = frozenset(
    {
        "taskmanager.cpu.cores",
        m.FRAMEWORK_HEAP,
        m.FRAMEWORK_OFF_HEAP,
        m.TASK_HEAP,
        m.TASK_OFF_HEAP,
        m.NETWORK_MIN,
        m.NETWORK_MAX,
        m.MANAGED,
        "taskmanager.memory.jvm-metaspace.size",
        "taskmanager.memory.jvm-overhead.min",
        "taskmanager.memory.jvm-overhead.max",
        "taskmanager.numberOfTaskSlots",
        "jobmanager.memory.heap.size",
        "jobmanager.memory.off-heap.size",
        "jobmanager.memory.jvm-metaspace.size",
        "jobmanager.memory.jvm-overhead.min",
        "jobmanager.memory.jvm-overhead.max",
        "external-resources",
    }
)
_POOLS: Final = {
    "Total Process Memory": m.PROCESS,
    "Total Flink Memory": m.FLINK,
    "Managed": m.MANAGED,
    "Network": "taskmanager.memory.network",
    "JVM Metaspace": "taskmanager.memory.jvm-metaspace.size",
    "JVM Overhead": "taskmanager.memory.jvm-overhead",
    "JVM Heap": "jobmanager.memory.heap.size",
    "Off-heap": "jobmanager.memory.off-heap.size",
}
_REST: Final = {
    "frameworkHeap": m.FRAMEWORK_HEAP,
    "taskHeap": m.TASK_HEAP,
    "frameworkOffHeap": m.FRAMEWORK_OFF_HEAP,
    "taskOffHeap": m.TASK_OFF_HEAP,
    "networkMemory": "taskmanager.memory.network",
    "managedMemory": m.MANAGED,
    "jvmMetaspace": "taskmanager.memory.jvm-metaspace.size",
    "jvmOverhead": "taskmanager.memory.jvm-overhead",
    "totalFlinkMemory": m.FLINK,
    "totalProcessMemory": m.PROCESS,
}
_SPEC: Final = {
    "frameworkHeapSize": m.FRAMEWORK_HEAP,
    "frameworkOffHeapSize": m.FRAMEWORK_OFF_HEAP,
    "taskHeapSize": m.TASK_HEAP,
    "taskOffHeapSize": m.TASK_OFF_HEAP,
    "networkMemSize": "taskmanager.memory.network",
    "managedMemorySize": m.MANAGED,
    "jvmMetaspaceSize": "taskmanager.memory.jvm-metaspace.size",
    "jvmOverheadSize": "taskmanager.memory.jvm-overhead",
}
# Up to 1.9: the container, and the heap that was cut out of it.
_OLD_SPEC: Final = re.compile(
    r"container size ([0-9]{1,9}) MB, JVM heap size ([0-9]{1,9}) MB, JVM direct memory limit"
)
_SPEC_ENTRY: Final = re.compile(r"(\w{1,40})=(?:[0-9.]{1,20}[kmgt]b \()?([0-9]{1,19}) bytes")


def assemble_memory(
    rows: Sequence[Row],
    common: ClusterFacts,
    *,
    files: Sequence[ConfigFile] = (),
    kills: Sequence[Kill] = (),
    usages: Sequence[Usage] = (),
    given: Mapping[str, str] | None = None,
    version: str | None = None,
    container: bool | None = None,
) -> MemoryFacts:
    """Facts from everything there is.

    Args:
        rows: of `memory_measure.facts_frame`.
        common: what `assemble` made of the same rows: jobs, attempts, incidents, processes.
        files: configuration files.
        kills: what `kubectl` says.
        usages: of the JVM's own logs.
        given: options of the command line; they override those of files.
        version: of Flink, as the user says.
        container: whether the processes run in containers, as the user says.
    """
    of_files: dict[str, str] = {}
    refs: dict[str, Ref] = {}
    for file in files:
        of_files.update(file.read.options)
        refs.update({key: Ref(file.source, at) for key, at in file.read.offsets.items()})
    wanted = dict(given or {})
    processes = _logged(rows, common.processes, version, container)
    processes = _with_rest(processes, common, version)
    processes = _with_limits(_with_specs(processes, rows, version), rows)
    processes = [_with_options(p, processes, of_files, refs, wanted) for p in processes]
    if of_files or wanted:
        seen = _one_version(processes)
        processes += _described(
            of_files | wanted, refs, files, version or seen, container, {p.role for p in processes}
        )
    processes = _with_usages([_with_usage(p, rows) for p in processes], usages)
    jobs = common.jobs
    return MemoryFacts(
        processes=tuple(sorted(processes, key=_order)),
        files=tuple(files),
        jobs=jobs,
        buffers=tuple(_buffers(jobs, processes, rows)),
        kills=(*kills, *_operator_kills(rows)),
        writers=common.processes,
        backends=_backends(jobs, processes, rows),
    )


def _order(process: MemoryProcess) -> tuple[Any, ...]:
    return (
        process.role != "jobmanager",
        process.taskmanager or "",
        process.source if process.source is not None else 1 << 30,
        process.label or "",
    )


def _one_version(processes: Iterable[MemoryProcess]) -> str | None:
    versions = {process.version for process in processes if process.version}
    return versions.pop() if len(versions) == 1 else None


def _operator_kills(rows: Iterable[Row]) -> Iterator[Kill]:
    """Containers that the Kubernetes Operator saw end for their memory, each text once."""
    seen: set[str] = set()
    for row in rows:
        if row["what"] != "memory" or not (row["template"] or "").startswith("operator-"):
            continue
        fields = row["fields"] or {}
        said = fields.get("said", "").strip()
        if said in seen:
            continue
        seen.add(said)
        told = f"{fields.get('reason', '')} {said}"
        yield Kill(
            reason="Evicted" if "evicted" in told.lower() else "OOMKilled",
            exit_code=None,
            pod=row["thread"],
            limit=None,
            text=said[:300],
            ref=Ref(row["source"], row["offset"]),
        )


# --- what logs say ---------------------------------------------------------------------------------


def _logged(
    rows: Iterable[Row], writers: Iterable[Process], version: str | None, container: bool | None
) -> list[MemoryProcess]:
    streams: dict[tuple[int, str | None], list[Row]] = defaultdict(list)
    for row in rows:
        template = row["template"] or ""
        if (
            row["what"] == "memory"
            and template not in ("yarn-taskmanager-starting", "pod-creating")
            and not template.startswith("operator-")
        ):
            streams[(row["source"], row["owner"])].append(row)
    by_stream = {(w.source, w.label): w for w in writers}
    found = []
    for key, records in sorted(streams.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        writer = by_stream.get(key)
        made = _process(sorted(records, key=lambda r: r["offset"]), writer, version, container)
        if made is not None:
            found.append(made)
    return found


def _process(
    records: Sequence[Row], writer: Process | None, version: str | None, container: bool | None
) -> MemoryProcess | None:
    """The last start that a stream tells of; what a later record says replaces what was before."""
    role = writer.role if writer and writer.role in ("taskmanager", "jobmanager") else None
    configured: dict[str, str] = {}
    refs: dict[str, Ref] = {}
    observed: dict[str, int] = {}
    values: dict[str, int] = {}
    within_heap = True
    component = ""
    for row in records:
        fields = row["fields"] or {}
        template = row["template"] or ""
        ref = Ref(row["source"], row["offset"])
        if template == "memory-report":
            role = "taskmanager" if fields.get("process") == "TaskExecutor" else "jobmanager"
            observed, within_heap = {}, True
        elif template.startswith("memory-pool-"):
            pool = fields.get("pool", "")
            within_heap = within_heap and pool != "Managed"
            name = _pool_name(pool, role, within_heap)
            if name and row["bytes"] is not None:
                observed[name] = row["bytes"]
                refs[f"observed:{name}"] = ref
        elif template == "heap-size":
            values["heap_max"] = int(fields["heap_mib"]) * m.MIB
        elif template == "network-buffers":
            values["segments"] = int(fields["segments"])
            values["segment_bytes"] = int(fields["segment_bytes"])
            refs["segments"] = ref
        elif template in ("jvm-direct-limit", "jvm-metaspace-limit"):
            name = template.removeprefix("jvm-").replace("-", "_")
            values[name] = _jvm_size(fields.get(name, ""))
        elif row["event"] == Event.PROCESS_STARTED:
            component = fields.get("component", "").lower()
        elif row["event"] == Event.CONFIGURATION and fields.get("key"):
            key = fields["key"]
            by_script = template.startswith("argument-") or (fields.get("origin") or "").startswith(
                "dynamic"
            )
            if by_script and key in _BY_SCRIPTS:
                _from_script(observed, key, fields.get("value", ""))
            else:
                configured[key] = fields.get("value", "")
                refs[key] = ref
    if role is None:
        role = "taskmanager" if "taskmanager" in component or "taskexecutor" in component else role
    if role is None or not (configured or observed or values):
        return None
    first = records[0]
    return MemoryProcess(
        role=role,
        source=first["source"],
        label=first["owner"],
        taskmanager=writer.taskmanager if writer and role == "taskmanager" else None,
        host=writer.host if writer else None,
        version=(writer.version if writer else None) or version,
        container=(
            bool(re.search("yarn|kubernetes|mesos", component)) if container is None else container
        ),
        configured=configured,
        refs=refs,
        observed=_complete(observed),
        origin="log" if observed else None,
        segments=values.get("segments"),
        segment_bytes=values.get("segment_bytes"),
        heap_max=values.get("heap_max"),
        direct_limit=values.get("direct_limit"),
        metaspace_limit=values.get("metaspace_limit"),
    )


def _pool_name(pool: str, role: str | None, within_heap: bool) -> str | None:
    if pool == "Framework":
        return m.FRAMEWORK_HEAP if within_heap else m.FRAMEWORK_OFF_HEAP
    if pool == "Task":
        return m.TASK_HEAP if within_heap else m.TASK_OFF_HEAP
    name = _POOLS.get(pool)
    if name and role == "jobmanager":
        return name.replace("taskmanager.", "jobmanager.", 1)
    return name


def _from_script(observed: dict[str, int], key: str, text: str) -> None:
    """What the scripts computed, as they pass it on: `…=134217728b`."""
    try:
        size = m.parse_size(text)
    except m.MemoryOptionError:
        return
    name = {m.NETWORK_MIN: "taskmanager.memory.network"}.get(key, key)
    name = name.removesuffix(".min") if name.endswith("jvm-overhead.min") else name
    if name.startswith(("taskmanager.memory.", "jobmanager.memory.")) and not name.endswith(
        (".max", ".min")
    ):
        observed.setdefault(name, size)


def _complete(observed: dict[str, int]) -> dict[str, int]:
    """Add the totals where all parts are known."""
    parts = (
        m.FRAMEWORK_HEAP,
        m.TASK_HEAP,
        m.FRAMEWORK_OFF_HEAP,
        m.TASK_OFF_HEAP,
        m.MANAGED,
        "taskmanager.memory.network",
    )
    around = ("taskmanager.memory.jvm-metaspace.size", "taskmanager.memory.jvm-overhead")
    if all(name in observed for name in parts):
        observed.setdefault(m.FLINK, sum(observed[name] for name in parts))
        if all(name in observed for name in around):
            total = observed[m.FLINK] + sum(observed[name] for name in around)
            observed.setdefault(m.PROCESS, total)
    return observed


def _jvm_size(text: str) -> int:
    units = {"k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
    digits = text.rstrip("kKmMgGtT")
    return int(digits or 0) * units.get(text[-1:].lower(), 1)


def _with_rest(
    processes: list[MemoryProcess], common: ClusterFacts, version: str | None
) -> list[MemoryProcess]:
    """Add what `/taskmanagers` says; a TaskManager without a log becomes a process of its own."""
    incidents = [*common.incidents, *(i for job in common.jobs for i in job.incidents)]
    versions = {job.version for job in common.jobs if job.version}
    told: dict[str, tuple[dict[str, int], Any]] = {}
    for incident in incidents:
        if incident.kind != "taskmanager-registered" or not incident.taskmanager:
            continue
        sizes = {
            name: int(incident.text[f"memory.{key}"])
            for key, name in _REST.items()
            if (incident.text.get(f"memory.{key}") or "").lstrip("-").isdecimal()
        }
        if sizes:
            told[incident.taskmanager] = (sizes, incident)
    for taskmanager, (sizes, incident) in sorted(told.items()):
        index = next((i for i, p in enumerate(processes) if p.taskmanager == taskmanager), None)
        if index is not None:
            known = processes[index]
            if not known.observed:
                processes[index] = replace(known, observed=sizes, origin="rest")
            continue
        processes.append(
            MemoryProcess(
                role="taskmanager",
                source=incident.ref.source if incident.ref else None,
                taskmanager=taskmanager,
                host=incident.host,
                version=(next(iter(versions)) if len(versions) == 1 else None) or version,
                observed=sizes,
                origin="rest",
                refs={f"observed:{name}": incident.ref for name in sizes if incident.ref},
            )
        )
    return processes


def _with_specs(
    processes: list[MemoryProcess], rows: Iterable[Row], version: str | None
) -> list[MemoryProcess]:
    """Add what the resource manager says it starts (`TaskExecutorProcessSpec`)."""
    for row in rows:
        if row["what"] != "memory" or row["template"] != "yarn-taskmanager-starting":
            continue
        spec = (row["fields"] or {}).get("spec", "")
        sizes = {
            _SPEC[name]: int(size) for name, size in _SPEC_ENTRY.findall(spec) if name in _SPEC
        }
        old = _OLD_SPEC.search(spec)
        if old is not None:
            sizes = {"taskmanager.heap.size": int(old[1]) * m.MIB, "heap": int(old[2]) * m.MIB}
        if not sizes:
            continue
        sizes = _complete(sizes)
        ref = Ref(row["source"], row["offset"])
        index = next(
            (i for i, p in enumerate(processes) if p.taskmanager == row["taskmanager"]), None
        )
        if index is not None:
            known = processes[index]
            if not known.observed:
                processes[index] = replace(known, observed=sizes, origin="resource-manager")
            processes[index] = replace(processes[index], container=True)
            continue
        manager = next((p for p in processes if p.source == row["source"]), None)
        processes.append(
            MemoryProcess(
                role="taskmanager",
                source=row["source"],
                label=row["owner"],
                taskmanager=row["taskmanager"],
                host=row["host"],
                version=(manager.version if manager else None) or version,
                container=True,
                observed=sizes,
                origin="resource-manager",
                refs={f"observed:{name}": ref for name in sizes},
            )
        )
    return processes


def _with_limits(processes: list[MemoryProcess], rows: Iterable[Row]) -> list[MemoryProcess]:
    """Add the size of the pod that the resource manager asked for: `<megabytes,cpus>`."""
    asked: dict[str, int] = {}
    for row in rows:
        if row["what"] == "memory" and row["template"] == "pod-creating" and row["taskmanager"]:
            megabytes = (row["fields"] or {}).get("resource", "").partition(",")[0].strip()
            if megabytes.isdecimal() and len(megabytes) < 10:
                asked[row["taskmanager"]] = int(megabytes) * m.MIB
    return [
        replace(process, container=True, container_limit=asked[process.taskmanager])
        if process.taskmanager in asked
        else process
        for process in processes
    ]


# --- options and the model -------------------------------------------------------------------------


def _with_options(
    process: MemoryProcess,
    all_processes: Sequence[MemoryProcess],
    of_files: Mapping[str, str],
    refs: Mapping[str, Ref],
    given: Mapping[str, str],
) -> MemoryProcess:
    """Complete the options of a process from its JobManager's log and from files, and derive."""
    configured, places = dict(process.configured), dict(process.refs)
    totals = TOTALS[process.role]
    if process.role == "taskmanager" and not any(key in configured for key in totals):
        # In a container a TaskManager gets what its JobManager computed; the options stand there.
        manager = next((p for p in all_processes if p.role == "jobmanager" and p.configured), None)
        if manager is not None:
            configured = {**manager.configured, **configured}
            places = {**manager.refs, **places}
    if not any(key in configured for key in totals):
        configured, places = {**of_files, **configured}, {**refs, **places}
    configured |= given
    return replace(
        process,
        configured=configured,
        refs=places,
        derived=derive(process.role, configured, process.version, process.container),
    )


def _described(
    options: Mapping[str, str],
    refs: Mapping[str, Ref],
    files: Sequence[ConfigFile],
    version: str | None,
    container: bool | None,
    running: set[str],
) -> list[MemoryProcess]:
    """The processes that options describe, where no process of that role is known to run."""
    found = []
    on_kubernetes = any(file.read.carrier == "FlinkDeployment" for file in files)
    for role in ("jobmanager", "taskmanager"):
        meant = [ENVIRONMENT.get(key, key) for key in options]
        mine = [key for key in meant if key.startswith(f"{role}.") and key in m.MEMORY_KEYS]
        if role in running or not mine:
            continue
        inside = on_kubernetes if container is None else container
        derived = derive(role, options, version, inside)
        seen = version_of(version) or m.LATEST
        if derived is None and role == "taskmanager" and seen >= (1, 10):
            derived = m.taskmanager_memory(options, seen, container=inside)
        found.append(
            MemoryProcess(
                role=role,
                source=files[-1].source if files else None,
                version=version,
                container=inside,
                configured=dict(options),
                refs=dict(refs),
                derived=derived,
            )
        )
    return found


# --- usage -----------------------------------------------------------------------------------------


def _with_usages(processes: list[MemoryProcess], usages: Sequence[Usage]) -> list[MemoryProcess]:
    """Logs of the garbage collector name no process: one log and one TaskManager belong together."""
    workers = [i for i, p in enumerate(processes) if p.role == "taskmanager" and p.usage is None]
    if len(usages) == 1 and len(workers) == 1:
        processes[workers[0]] = replace(processes[workers[0]], usage=usages[0])
        return processes
    return processes + [
        MemoryProcess(role="unknown", source=usage.source, usage=usage) for usage in usages
    ]


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


# --- buffers ---------------------------------------------------------------------------------------


def _buffers(
    jobs: Iterable[JobFacts], processes: Sequence[MemoryProcess], rows: Iterable[Row]
) -> list[BufferNeeds]:
    tasks: dict[str, list[b.TaskNeed]] = defaultdict(list)
    anywhere: dict[str, int] = defaultdict(int)
    hosts: dict[str, str | None] = {}
    plans = _plans(rows)
    for job in jobs:
        needed, most = _needs_of(job, processes, plans.get(job.key.job_id, ()))
        for taskmanager, needs in needed.items():
            tasks[taskmanager] += needs
            anywhere[taskmanager] += most
        hosts |= {a.taskmanager: a.host for a in job.attempts if a.taskmanager}
    found = []
    for taskmanager, needs in sorted(tasks.items()):
        process = next((p for p in processes if p.taskmanager == taskmanager), None)
        similar = process or next((p for p in processes if p.role == "taskmanager"), None)
        if similar is None:
            continue
        segments, size = _segments(similar)
        found.append(
            BufferNeeds(
                taskmanager=taskmanager,
                host=hosts.get(taskmanager),
                segments=segments,
                segment_bytes=size,
                required=sum(need.required for need in needs),
                desired=sum(need.desired for need in needs),
                any_placement=anywhere[taskmanager],
                tasks=tuple(needs),
                process=similar,
            )
        )
    return found


def _segments(process: MemoryProcess) -> tuple[int | None, int]:
    size = process.segment_bytes
    if size is None:
        try:
            size = m.segment_size(process.configured)
        except m.MemoryOptionError:
            size = m.DEFAULT_SEGMENT
    if process.segments is not None:
        return process.segments, size
    network = process.observed.get("taskmanager.memory.network")
    if network is None and process.derived is not None and process.derived.memory is not None:
        memory = process.derived.memory
        network = None if isinstance(memory, m.JobManagerMemory) else memory.network
    return (None if network is None else network // size), size


def _needs_of(
    job: JobFacts, processes: Sequence[MemoryProcess], plan: Sequence[_Input]
) -> tuple[dict[str, list[b.TaskNeed]], int]:
    """The needs of a job on each TaskManager, and what is enough for any; nothing without a plan."""
    edges, parallelism = _edges(job, plan)
    by_region = b.regions(parallelism, edges)
    if not edges:
        return {}, 0
    version = version_of(job.version) or _any_version(processes) or m.LATEST
    configured = next((p.configured for p in processes if p.role == "taskmanager"), {})
    settings = b.Settings.of(configured, version)
    name = job.name or job.key.job_id
    worst: dict[str, list[b.TaskNeed]] = {}
    slots = 1
    for placement in _rounds(job):
        by_taskmanager: dict[str, list[b.TaskNeed]] = defaultdict(list)
        for need in b.needs(name, parallelism, edges, placement, settings, version):
            by_taskmanager[need.taskmanager].append(need)
        if len(set(by_region.values())) > 1:
            by_taskmanager = _largest_regions(by_taskmanager, by_region)
        for taskmanager, needs in by_taskmanager.items():
            known = sum(need.required for need in worst.get(taskmanager, ()))
            if sum(need.required for need in needs) > known:
                worst[taskmanager] = needs
            for task in {need.task for need in needs}:
                slots = max(slots, sum(need.task == task for need in needs))
    text = configured.get("taskmanager.numberOfTaskSlots", "")
    if text.isdecimal():
        slots = max(slots, min(int(text), 1024))
    return worst, b.worst_placement(parallelism, edges, slots, settings, version)


def _any_version(processes: Iterable[MemoryProcess]) -> m.Version | None:
    return next((found for p in processes if (found := version_of(p.version))), None)


class _Input(NamedTuple):
    """One input of a vertex, as a plan tells it; two of them may come from the same vertex."""

    number: str
    upstream: str
    vertex_id: str
    pattern: str
    exchange: str


def _plans(rows: Iterable[Row]) -> dict[str, list[_Input]]:
    """The inputs of all vertices by job id, each once."""
    found: dict[str, dict[tuple[str, str, str], _Input]] = defaultdict(dict)
    for row in rows:
        if row["what"] != "incident" or row["event"] != Event.EDGE or not row["job_id"]:
            continue
        fields = row["fields"] or {}
        if not fields.get("upstream") or not row["vertex_id"]:
            continue
        told = _Input(
            fields.get("number") or "",
            fields["upstream"],
            row["vertex_id"],
            (fields.get("ship_strategy") or "HASH").upper(),
            (fields.get("exchange") or "").lower(),
        )
        found[row["job_id"]].setdefault(told[:3], told)
    return {job_id: list(inputs.values()) for job_id, inputs in found.items()}


def _largest_regions(
    by_taskmanager: Mapping[str, list[b.TaskNeed]], by_region: Mapping[str, str]
) -> dict[str, list[b.TaskNeed]]:
    """Of each TaskManager the tasks that run at the same time and need most together."""
    found: dict[str, list[b.TaskNeed]] = {}
    for taskmanager, needs in by_taskmanager.items():
        groups: dict[str, list[b.TaskNeed]] = defaultdict(list)
        for need in needs:
            groups[by_region.get(need.task, "")].append(need)
        found[taskmanager] = max(
            groups.values(), key=lambda group: sum(need.required for need in group)
        )
    return found


def _edges(job: JobFacts, plan: Sequence[_Input]) -> tuple[list[b.Edge], dict[str, int]]:
    graph = job.graph
    if graph is None:
        return [], {}
    parallelism = {vertex.task: vertex.parallelism for vertex in graph.vertices}
    names = {vertex.vertex_id: vertex.task for vertex in graph.vertices if vertex.vertex_id}
    told = [
        b.Edge(
            names[item.upstream],
            names[item.vertex_id],
            item.pattern,
            blocking=item.exchange.startswith(("block", "hybrid")),
        )
        for item in plan
        if item.upstream in names and item.vertex_id in names
    ]
    if told:
        return told, parallelism
    shipped = {(up, down): strategy for up, down, strategy in graph.shipping}
    edges = [b.Edge(up, down, shipped.get((up, down), "HASH").upper()) for up, down in graph.edges]
    return edges, parallelism


_ROUNDS: Final = 40


def _rounds(job: JobFacts) -> list[dict[tuple[str, int], str]]:
    """Where the subtasks were in each round of deployments, the last `_ROUNDS` of them."""
    by_round: dict[int, dict[tuple[str, int], str]] = defaultdict(dict)
    for a in job.attempts:
        if a.task and a.subtask_index is not None and a.taskmanager:
            by_round[a.attempt or 0][(a.task, a.subtask_index)] = a.taskmanager
    rounds: list[dict[tuple[str, int], str]] = []
    for number in sorted(by_round):
        # A part of the job may be restarted alone: the others stay where they were.
        rounds.append({**(rounds[-1] if rounds else {}), **by_round[number]})
    return rounds[-_ROUNDS:]


# --- state backends --------------------------------------------------------------------------------


def _backends(
    jobs: Iterable[JobFacts], processes: Iterable[MemoryProcess], rows: Iterable[Row]
) -> dict[str, str]:
    """By job id, and `""` for what configurations say."""
    found: dict[str, str] = {}
    for job in jobs:
        text = job.setting("state.backend")
        if text and (kind := _backend(text)):
            found[job.key.job_id] = kind
    for process in processes:
        text = process.configured.get("state.backend.type") or process.configured.get(
            "state.backend"
        )
        if text and (kind := _backend(text)):
            found.setdefault("", kind)
    return found


def _backend(text: str) -> str | None:
    lower = text.lower()
    if "rocks" in lower or "forst" in lower:
        return "rocksdb"
    if any(word in lower for word in ("hashmap", "filesystem", "fsstate", "memory", "jobmanager")):
        return "heap"
    return None
