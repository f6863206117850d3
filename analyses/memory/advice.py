"""What to set, and what it does to the other pools: every proposal is put through the model first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.knowledge.option_types import write
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import BufferNeeds, MemoryProcess
from flowdiag.analyses.memory.options import derive
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Action

_STEP = 64 * m.MIB
_MOST_STEPS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Options to set, and what comes out.

    Args:
        options: by key.
        memory: what the model makes of them.
        keeps_total: whether the process stays as large as it is.
    """

    options: Mapping[str, str]
    memory: m.TaskManagerMemory
    keeps_total: bool


def current(process: MemoryProcess) -> m.TaskManagerMemory | None:
    """The pools of a TaskManager as derived, else as observed."""
    if process.derived is not None and isinstance(process.derived.memory, m.TaskManagerMemory):
        return process.derived.memory
    seen = process.observed
    try:
        return m.TaskManagerMemory(
            framework_heap=seen[m.FRAMEWORK_HEAP],
            task_heap=seen[m.TASK_HEAP],
            framework_off_heap=seen[m.FRAMEWORK_OFF_HEAP],
            task_off_heap=seen[m.TASK_OFF_HEAP],
            network=seen["taskmanager.memory.network"],
            managed=seen[m.MANAGED],
            metaspace=seen["taskmanager.memory.jvm-metaspace.size"],
            overhead=seen["taskmanager.memory.jvm-overhead"],
        )
    except KeyError:
        return None


def tried(process: MemoryProcess, options: Mapping[str, str]) -> m.TaskManagerMemory | None:
    """What the model makes of a process with more options; None where Flink would refuse."""
    known = {key: text for key, text in process.configured.items() if key in m.MEMORY_KEYS}
    if not known and (now := current(process)) is not None:
        known = {m.PROCESS: f"{now.process}b"}
    derived = derive("taskmanager", {**known, **options}, process.version, process.container)
    if derived is None or not isinstance(derived.memory, m.TaskManagerMemory):
        return None
    return derived.memory


def network_keys(version: str | None) -> tuple[str, str]:
    """The lower and the upper bound of the network memory, as the version calls them.

    >>> network_keys("1.9.3"), network_keys(None)[0]
    (('taskmanager.network.memory.min', 'taskmanager.network.memory.max'), 'taskmanager.memory.network.min')
    """
    if (version_of(version) or m.LATEST) < (1, 10):
        return "taskmanager.network.memory.min", "taskmanager.network.memory.max"
    return m.NETWORK_MIN, m.NETWORK_MAX


def enough_network(process: MemoryProcess, size: int) -> Proposal | None:
    """The fewest options with which the network memory has a size, and Flink takes all of them.

    One bound alone where the other one permits it, then both, then a larger process, too.

    Returns:
        None before 1.10, of which the model knows too little, or where no options would do.
    """
    now = current(process)
    if now is None or (version_of(process.version) or m.LATEST) < (1, 10):
        return None
    low, high = network_keys(process.version)
    text = m.as_option(size)
    both = {low: text, high: text}
    for options in ({low: text}, {high: text}, both):
        memory = tried(process, options)
        if memory is not None and memory.network >= size:
            return Proposal(
                options=options, memory=memory, keeps_total=memory.process <= now.process
            )
    return _larger_process(process, now, both, lambda made: made.network >= size)


def enough_buffers(needs: BufferNeeds) -> tuple[dict[str, str], m.TaskManagerMemory | None] | None:
    """The smallest setting of the network memory with which all pools fit, and its result.

    Returns:
        options and the pools with them (None before 1.10); None where nothing is known of the
        process, or Flink would refuse whatever is set.
    """
    process = needs.process
    if process is None:
        return None
    size = needs.smallest
    if (version_of(process.version) or m.LATEST) < (1, 10):
        text = m.as_option(size)
        return dict.fromkeys(network_keys(process.version), text), None
    known = process.configured
    if m.BUFFERS in known and (version_of(process.version) or m.LATEST) < (2, 0):
        newer = (m.NETWORK_MIN, m.NETWORK_MAX, m.NETWORK_FRACTION)
        if not any(key in known for key in newer):
            options = {m.BUFFERS: str(max(needs.required, needs.any_placement))}
            memory = tried(process, options)
            if memory is not None:
                return options, memory
    found = enough_network(process, size)
    return (dict(found.options), found.memory) if found is not None else None


def more_heap(process: MemoryProcess, share: float, *, managed_is_free: bool) -> Proposal | None:
    """A larger heap: out of unused managed memory if there is enough, else by a larger process."""
    now = current(process)
    if now is None:
        return None
    extra = int(now.heap * share)
    if managed_is_free and now.managed >= extra and m.TASK_HEAP not in process.configured:
        left = (now.managed - extra) // m.MIB * m.MIB
        options = {m.MANAGED: m.as_option(left)}
        memory = tried(process, options)
        if memory is not None and memory.heap > now.heap and memory.process <= now.process:
            return Proposal(options=options, memory=memory, keeps_total=True)
    return _larger_process(process, now, {}, lambda memory: memory.heap >= now.heap + extra)


def more_metaspace(process: MemoryProcess, share: float, heap_left: float) -> Proposal | None:
    """A larger metaspace, out of the heap where enough of it is left: `heap_left` of what it has."""
    now = current(process)
    if now is None:
        return None
    size = _rounded(int(now.metaspace * (1 + share)))
    options = {"taskmanager.memory.jvm-metaspace.size": m.as_option(size)}
    return _with(process, now, options, heap_left)


def more_direct(process: MemoryProcess, extra: int, heap_left: float) -> Proposal | None:
    """More direct memory for user code and libraries."""
    now = current(process)
    if now is None:
        return None
    options = {m.TASK_OFF_HEAP: m.as_option(_rounded(now.task_off_heap + extra))}
    return _with(process, now, options, heap_left)


def more_overhead(process: MemoryProcess, share: float, heap_left: float) -> Proposal | None:
    """More room for native memory outside of all pools."""
    now = current(process)
    if now is None:
        return None
    size = m.as_option(_rounded(int(now.overhead * (1 + share))))
    prefix = "taskmanager.memory.jvm-overhead"
    options = {f"{prefix}.min": size}
    if m.parse_size(size) > 1024 * m.MIB or f"{prefix}.max" in process.configured:
        options[f"{prefix}.max"] = size
    return _with(process, now, options, heap_left)


def _rounded(size: int) -> int:
    return -(-size // (16 * m.MIB)) * 16 * m.MIB


def _with(
    process: MemoryProcess, now: m.TaskManagerMemory, options: dict[str, str], heap_left: float
) -> Proposal | None:
    """Keep the total if as much of the heap remains, else make the process larger."""
    memory = tried(process, options)
    if memory is not None and memory.process <= now.process and memory.heap >= now.heap * heap_left:
        return Proposal(options=options, memory=memory, keeps_total=True)
    return _larger_process(process, now, options, lambda made: made.heap >= now.heap)


def _larger_process(
    process: MemoryProcess,
    now: m.TaskManagerMemory,
    options: dict[str, str],
    enough: Callable[[m.TaskManagerMemory], bool],
) -> Proposal | None:
    """The smallest total (in steps of 64 MB) with which something holds."""
    key = next((k for k in (m.FLINK, m.PROCESS) if k in process.configured), m.PROCESS)
    if m.FLINK in process.configured and m.PROCESS in process.configured:
        return None  # two totals: no single option helps
    start = now.flink if key == m.FLINK else now.process
    for step in range(_MOST_STEPS):
        total = m.as_option(-(-start // _STEP) * _STEP + step * _STEP)
        memory = tried(process, {**options, key: total})
        if memory is not None and enough(memory):
            return Proposal(options={**options, key: total}, memory=memory, keeps_total=False)
    return None


def setting_of(process: MemoryProcess, proposal: Proposal, text: str) -> Action:
    """A proposal as one thing to do: what goes together is set together.

    Args:
        process: whose options they are.
        proposal: what the model accepts.
        text: what to do.
    """
    memory = proposal.memory
    heap, managed, total = map(fmt.size, (memory.heap, memory.managed, memory.process))
    key, *others = proposal.options
    version = version_of(process.version)
    return Action(
        text=text,
        option=key,
        current=h.present(key, process.configured.get(key), process.version),
        proposed=write(key, proposal.options[key], version),
        together=h.changes(
            {other: proposal.options[other] for other in others},
            process.configured,
            process.version,
        ),
        risk=f"heap {heap}, managed {managed}, process {total} afterwards",
        restart_needed=True,
        verify="Status.JVM.Memory metrics stay below their maximum",
    )
