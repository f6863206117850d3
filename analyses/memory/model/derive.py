"""Derives the pools of a process from its options, for Flink 1.10 and later."""

from __future__ import annotations

from collections.abc import Mapping

from flowdiag.analyses.memory.model.legacy import legacy_memory, old_heap
from flowdiag.analyses.memory.model.options import (
    BUFFERS,
    FLINK,
    FRAMEWORK_HEAP,
    FRAMEWORK_OFF_HEAP,
    LATEST,
    MANAGED,
    MANAGED_FRACTION,
    NETWORK_FRACTION,
    NETWORK_MAX,
    NETWORK_MIN,
    PROCESS,
    TASK_HEAP,
    TASK_OFF_HEAP,
    Options,
    RangeFraction,
    Version,
    read_range,
    segment_size,
)
from flowdiag.analyses.memory.model.pools import Derivation, JobManagerMemory, TaskManagerMemory
from flowdiag.analyses.memory.model.sizes import (
    MAX_LONG,
    MIB,
    MemoryOptionError,
    human_readable,
    share,
)


def taskmanager_memory(
    options: Mapping[str, str], version: Version = LATEST, *, container: bool = False
) -> Derivation:
    """Derive the pools of a TaskManager.

    Args:
        options: option texts by key.
        version: Flink's version; versions before 1.10 use the old model.
        container: whether Flink runs on YARN, Kubernetes or Mesos, where the old heap option sets the size of
            the whole container.
    """
    view = Options(options, version)
    try:
        if version < (1, 10):
            return Derivation(memory=legacy_memory(view, container=container))
        if version < (2, 0):
            view = _with_old_heap(view, "taskmanager", PROCESS if container else FLINK)
        memory = _taskmanager(view)
    except MemoryOptionError as error:
        return Derivation(memory=None, remarks=tuple(view.remarks), error=error.chain)
    return Derivation(memory=memory, remarks=tuple(view.remarks))


def jobmanager_memory(
    options: Mapping[str, str], version: Version = LATEST, *, container: bool = False
) -> Derivation:
    """Derive the pools of a JobManager, for Flink 1.11 and later. Earlier versions have only a heap."""
    view = Options(options, version)
    try:
        if version < (1, 11):
            heap = old_heap(view, "jobmanager")
            memory = JobManagerMemory(
                heap=1024 * MIB if heap is None else heap, off_heap=0, metaspace=0, overhead=0
            )
            return Derivation(memory=memory)
        if version < (2, 0):
            new = "process" if container else "heap"
            view = _with_old_heap(view, "jobmanager", f"jobmanager.memory.{new}.size")
        memory = _jobmanager(view)
    except MemoryOptionError as error:
        return Derivation(memory=None, remarks=tuple(view.remarks), error=error.chain)
    return Derivation(memory=memory, remarks=tuple(view.remarks))


def _with_old_heap(options: Options, process: str, key: str) -> Options:
    """Map an option of Flink 1.9 to its successor (`MemoryBackwardsCompatibilityUtils`)."""
    if key in options:
        return options
    try:
        heap = old_heap(options, process)
    except MemoryOptionError as error:
        if options.version >= (1, 11) and process == "taskmanager":
            wrapper = "TaskManager failed to map legacy JVM heap option to the new one: "
            raise MemoryOptionError(wrapper + error.chain[0], *error.chain) from None
        raise
    if heap is None:
        return options
    options.log(
        f"'{key}' is not specified, use the configured deprecated task manager heap value"
        f" ({human_readable(heap)}) for it."
    )
    return Options({**options.values, key: f"{heap}b"}, options.version, options.remarks)


def _taskmanager(options: Options) -> TaskManagerMemory:
    prefix = "taskmanager.memory"
    try:
        if TASK_HEAP in options and MANAGED in options:
            pools = _from_parts(options)
            metaspace, overhead = _areas_of_flink(options, prefix, sum(pools.values()))
        elif FLINK in options:
            total = options.size(FLINK)
            pools = _from_flink(options, total)
            metaspace, overhead = _areas_of_flink(options, prefix, total)
        elif PROCESS in options:
            metaspace, overhead, total = _areas_of_process(options, prefix)
            pools = _from_flink(options, total)
        elif options.version < (1, 11):
            raise MemoryOptionError(
                f"Either Task Heap Memory size ({TASK_HEAP}) and Managed Memory size ({MANAGED}),"
                f" or Total Flink Memory size ({FLINK}), or Total Process Memory size ({PROCESS})"
                " need to be configured explicitly."
            )
        else:
            raise MemoryOptionError(
                _missing_sizes_text(f"{TASK_HEAP} and {MANAGED}", FLINK, PROCESS)
            )
    except MemoryOptionError as error:
        if options.version >= (1, 11):
            raise error.wrapped_in("TaskManager memory configuration failed: ") from None
        raise
    return TaskManagerMemory(**pools, metaspace=metaspace, overhead=overhead)


def _missing_sizes_text(parts: str, flink: str, process: str) -> str:
    return (
        f"Either required fine-grained memory ({parts}), or Total Flink Memory size"  # english: quoted
        f" (Key: '{flink}' , default: null (fallback keys: [])), or Total Process Memory size"
        f" (Key: '{process}' , default: null (fallback keys: [])) need to be configured explicitly."
    )


def _from_parts(options: Options) -> dict[str, int]:
    """Derive the pools from task heap and managed memory, with the network memory as a share of the total."""
    pools = {
        "framework_heap": options.size(FRAMEWORK_HEAP),
        "framework_off_heap": options.size(FRAMEWORK_OFF_HEAP),
        "task_heap": options.size(TASK_HEAP),
        "task_off_heap": options.size(TASK_OFF_HEAP),
        "managed": options.size(MANAGED),
    }
    rest = sum(pools.values())
    if FLINK in options:
        network = _rest_for_network(options, pools, options.size(FLINK))
    elif _counts_buffers(options):
        network = _counted_buffers(options)
    else:
        network = _network_range(options).rest_of_total("network memory", rest, options)
    return {**pools, "network": network}


def _from_flink(options: Options, total: int) -> dict[str, int]:
    """Derive the pools from the total Flink memory: managed and network memory are shares, task heap the rest."""
    pools = {
        "framework_heap": options.size(FRAMEWORK_HEAP),
        "framework_off_heap": options.size(FRAMEWORK_OFF_HEAP),
        "task_off_heap": options.size(TASK_OFF_HEAP),
    }
    if TASK_HEAP in options:
        pools["task_heap"] = options.size(TASK_HEAP)
        pools["managed"] = _managed(options, total)
        return {**pools, "network": _rest_for_network(options, pools, total)}
    pools["managed"] = _managed(options, total)
    if _counts_buffers(options):
        pools["network"] = _counted_buffers(options)
    else:
        pools["network"] = _network_range(options).of("network memory", total, options)
    if sum(pools.values()) > total:
        raise MemoryOptionError(
            f"Sum of configured Framework Heap Memory ({human_readable(pools['framework_heap'])}),"
            f" Framework Off-Heap Memory ({human_readable(pools['framework_off_heap'])}),"
            f" Task Off-Heap Memory ({human_readable(pools['task_off_heap'])}),"
            f" Managed Memory ({human_readable(pools['managed'])})"
            f" and Network Memory ({human_readable(pools['network'])})"
            f" exceed configured Total Flink Memory ({human_readable(total)})."
        )
    return {**pools, "task_heap": total - sum(pools.values())}


def _managed(options: Options, total: int) -> int:
    if MANAGED in options:
        return options.size(MANAGED)
    whole = read_range(options, 0, MAX_LONG, MANAGED_FRACTION)
    return whole.of("managed memory", total, options)


def _rest_for_network(options: Options, pools: Mapping[str, int], total: int) -> int:
    if sum(pools.values()) > total:
        raise MemoryOptionError(
            f"Sum of configured Framework Heap Memory ({human_readable(pools['framework_heap'])}),"
            f" Framework Off-Heap Memory ({human_readable(pools['framework_off_heap'])}),"
            f" Task Heap Memory ({human_readable(pools['task_heap'])}),"
            f" Task Off-Heap Memory ({human_readable(pools['task_off_heap'])})"
            f" and Managed Memory ({human_readable(pools['managed'])})"
            f" exceed configured Total Flink Memory ({human_readable(total)})."
        )
    rest = total - sum(pools.values())
    try:
        _check_network(options, rest, total)
    except MemoryOptionError as error:
        raise MemoryOptionError(
            "If Total Flink, Task Heap and (or) Managed Memory sizes are explicitly configured then"  # english: quoted
            " the Network Memory size is the rest of the Total Flink memory after subtracting all"
            " other configured types of memory, but the derived Network Memory is inconsistent with"
            " its configuration.",
            *error.chain,
        ) from None
    return rest


def _check_network(options: Options, network: int, total: int) -> None:
    if _counts_buffers(options):
        counted = _counted_buffers(options)
        if counted != network:
            raise MemoryOptionError(
                f"Derived Network Memory size ({human_readable(network)}) does not match configured Network"
                f" Memory size ({human_readable(counted)})."
            )
        return
    allowed = _network_range(options)
    if not allowed.low <= network <= allowed.high:
        raise MemoryOptionError(
            f"Derived Network Memory size ({human_readable(network)}) is not in configured Network Memory"
            f" range [{human_readable(allowed.low)}, {human_readable(allowed.high)}]."
        )
    if NETWORK_FRACTION in options and network != share(total, allowed.fraction):
        options.log(
            f"The derived Network Memory size ({human_readable(network)}) does not match the configured"
            f" Network Memory fraction ({allowed.fraction}) from the configured Total Flink Memory"
            f" size ({human_readable(total)}). The derived Network Memory size will be used."
        )


def _counts_buffers(options: Options) -> bool:
    """Return whether `numberOfBuffers` applies: up to Flink 1.20, unless a newer option is set."""
    newer = any(key in options for key in (NETWORK_MIN, NETWORK_MAX, NETWORK_FRACTION))
    return options.version < (2, 0) and BUFFERS in options and not newer


def _counted_buffers(options: Options) -> int:
    return options.integer(BUFFERS) * segment_size(options.values)


def _network_range(options: Options) -> RangeFraction:
    low, high = options.size(NETWORK_MIN), options.size(NETWORK_MAX)
    return read_range(options, low, high, NETWORK_FRACTION)


def _overhead_range(options: Options, prefix: str) -> RangeFraction:
    low = options.size(f"{prefix}.jvm-overhead.min")
    high = options.size(f"{prefix}.jvm-overhead.max")
    return read_range(options, low, high, f"{prefix}.jvm-overhead.fraction")


def _areas_of_process(options: Options, prefix: str) -> tuple[int, int, int]:
    """Return metaspace, overhead and the rest for Flink, given the total process memory."""
    total = options.size(f"{prefix}.process.size")
    metaspace = options.size(f"{prefix}.jvm-metaspace.size")
    overhead = _overhead_range(options, prefix).of("jvm overhead memory", total, options)
    if metaspace + overhead > total:
        raise MemoryOptionError(
            f"Sum of configured JVM Metaspace ({human_readable(metaspace)}) and JVM Overhead"
            f" ({human_readable(overhead)}) exceed configured Total Process Memory ({human_readable(total)})."
        )
    return metaspace, overhead, total - metaspace - overhead


def _areas_of_flink(options: Options, prefix: str, flink: int) -> tuple[int, int]:
    """Return metaspace and overhead, given the total Flink memory."""
    metaspace = options.size(f"{prefix}.jvm-metaspace.size")
    process = f"{prefix}.process.size"
    if process not in options:
        allowed = _overhead_range(options, prefix)
        return metaspace, allowed.rest_of_total("jvm overhead memory", flink + metaspace, options)
    total = options.size(process)
    if total < flink + metaspace:
        if options.version < (1, 11):
            raise MemoryOptionError("bytes must be >= 0")
        raise MemoryOptionError(
            f"The configured Total Process Memory size ({human_readable(total)}) is less than the sum of the"
            f" derived Total Flink Memory size ({human_readable(flink)}) and the configured or default JVM"
            f" Metaspace size  ({human_readable(metaspace)})."
        )
    overhead = total - flink - metaspace
    allowed = _overhead_range(options, prefix)
    if not allowed.low <= overhead <= allowed.high:
        raise MemoryOptionError(
            f"Derived JVM Overhead size ({human_readable(overhead)}) is not in configured JVM Overhead range"
            f" [{human_readable(allowed.low)}, {human_readable(allowed.high)}]."
        )
    if f"{prefix}.jvm-overhead.fraction" in options and overhead != share(total, allowed.fraction):
        # Flink's wording, including a change in 1.11 and a typo of 1.15 or 1.16.
        what = "configured or default" if options.version >= (1, 11) else "configured"
        name = "Overhead" if options.version >= (1, 16) else "OVerhead"
        options.log(
            f"The derived JVM Overhead size ({human_readable(overhead)}) does not match the {what} JVM"
            f" Overhead fraction ({allowed.fraction}) from the configured Total Process Memory size"
            f" ({human_readable(total)}). The derived JVM {name} size will be used."
        )
    return metaspace, overhead


def _jobmanager(options: Options) -> JobManagerMemory:
    prefix = "jobmanager.memory"
    heap_key, flink_key = f"{prefix}.heap.size", f"{prefix}.flink.size"
    process_key, off_heap_key = f"{prefix}.process.size", f"{prefix}.off-heap.size"
    try:
        if heap_key in options:
            heap, off_heap = options.size(heap_key), options.size(off_heap_key)
            if flink_key in options:
                off_heap = _rest_off_heap(options, heap, off_heap)
            _check_heap(options, heap)
            metaspace, overhead = _areas_of_flink(options, prefix, heap + off_heap)
        elif flink_key in options or process_key in options:
            if flink_key in options:
                total = options.size(flink_key)
                heap, off_heap = _rest_heap(options, total)
                metaspace, overhead = _areas_of_flink(options, prefix, total)
            else:
                metaspace, overhead, total = _areas_of_process(options, prefix)
                heap, off_heap = _rest_heap(options, total)
        else:
            raise MemoryOptionError(_missing_sizes_text(heap_key, flink_key, process_key))
    except MemoryOptionError as error:
        if options.version >= (2, 0):
            raise
        raise error.wrapped_in("JobManager memory configuration failed: ") from None
    return JobManagerMemory(
        heap=heap,
        off_heap=off_heap,
        metaspace=metaspace,
        overhead=overhead,
        direct_limit=options.flag(f"{prefix}.enable-jvm-direct-memory-limit"),
    )


def _rest_off_heap(options: Options, heap: int, off_heap: int) -> int:
    total = options.size("jobmanager.memory.flink.size")
    advice = (
        "Please, make the configuration consistent or configure only one option: either JVM Heap"
        " or Total Flink Memory."
    )
    if heap > total:
        raise MemoryOptionError(
            f"The configured JVM Heap Memory ({human_readable(heap)}) exceeds the configured Total Flink"
            f" Memory ({human_readable(total)}). {advice}"
        )
    if "jobmanager.memory.off-heap.size" in options:
        if heap + off_heap != total:
            raise MemoryOptionError(
                f"Sum of the configured JVM Heap Memory ({human_readable(heap)}) and the configured Off-heap"
                f" Memory ({human_readable(off_heap)}) does not match the configured Total Flink Memory"
                f" ({human_readable(total)}). {advice}"
            )
        return off_heap
    rest = total - heap
    if rest != off_heap:
        options.log(
            f"The Off-Heap Memory size ({human_readable(rest)}) is derived the configured Total Flink Memory"
            f" size ({human_readable(total)}) minus the configured JVM Heap Memory size ({human_readable(heap)})."
            f" The default Off-Heap Memory size ({human_readable(off_heap)}) is ignored."
        )
    return rest


def _rest_heap(options: Options, total: int) -> tuple[int, int]:
    off_heap = options.size("jobmanager.memory.off-heap.size")
    if total <= off_heap:
        raise MemoryOptionError(
            f"The configured Total Flink Memory ({human_readable(total)}) is less than the configured"
            f" Off-heap Memory ({human_readable(off_heap)})."
        )
    _check_heap(options, total - off_heap)
    return total - off_heap, off_heap


def _check_heap(options: Options, heap: int) -> None:
    if heap < 128 * MIB:
        options.log(
            f"The configured or derived JVM heap memory size ({human_readable(heap)}) is less than its"
            f" recommended minimum value ({human_readable(128 * MIB)})",
            "WARN",
        )
