"""Proposes memory options after checking each proposal and its effect on other pools with the memory model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import BufferNeeds, MemoryFacts, MemoryProcess
from flowdiag.analyses.memory.options import derive
from flowdiag.analyses.memory.shortage import BufferShortage
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Action
from flowdiag.analyses.model.option_types import write
from flowdiag.parsers.units import size_bytes, version_of

_STEP = 64 * m.MIB
_MOST_STEPS = 4096
_MOST_TOTALS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Options to set and the resulting pools.

    Args:
        options: by key.
        memory: the pools that the model derives from the options.
        keeps_total: whether the process size stays the same.
    """

    options: Mapping[str, str]
    memory: m.TaskManagerMemory
    keeps_total: bool


def current_pools(process: MemoryProcess) -> m.TaskManagerMemory | None:
    """Return the pools of a TaskManager as derived or, without options, as observed."""
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


def derive_with(process: MemoryProcess, options: Mapping[str, str]) -> m.TaskManagerMemory | None:
    """Return the pools of a process with additional options, or None if Flink rejects them."""
    known = {key: text for key, text in process.configured.items() if key in m.MEMORY_KEYS}
    if not known and (now := current_pools(process)) is not None:
        known = {m.PROCESS: f"{now.process}b"}
    derived = derive("taskmanager", {**known, **options}, process.version, process.container)
    if derived is None or not isinstance(derived.memory, m.TaskManagerMemory):
        return None
    return derived.memory


def network_keys(version: str | None) -> tuple[str, str]:
    """Return the options for the lower and upper bound of the network memory in a Flink version.

    >>> network_keys("1.9.3"), network_keys(None)[0]
    (('taskmanager.network.memory.min', 'taskmanager.network.memory.max'), 'taskmanager.memory.network.min')
    """
    if (version_of(version) or m.LATEST) < (1, 10):
        return "taskmanager.network.memory.min", "taskmanager.network.memory.max"
    return m.NETWORK_MIN, m.NETWORK_MAX


def enough_network(process: MemoryProcess, size: int) -> Proposal | None:
    """Return the fewest options that provide this much network memory and that Flink accepts.

    The candidates are one bound alone, both bounds, and both bounds with a larger process.

    Returns:
        None before Flink 1.10, which the model does not fully cover, or if no options work.
    """
    now = current_pools(process)
    if now is None or (version_of(process.version) or m.LATEST) < (1, 10):
        return None
    low, high = network_keys(process.version)
    text = m.as_option(size)
    both = {low: text, high: text}
    for options in ({low: text}, {high: text}, both):
        memory = derive_with(process, options)
        if memory is not None and memory.network >= size:
            return Proposal(
                options=options, memory=memory, keeps_total=memory.process <= now.process
            )
    return _larger_process(process, now, both, lambda made: made.network >= size)


def enough_buffers(needs: BufferNeeds) -> tuple[dict[str, str], m.TaskManagerMemory | None] | None:
    """Return the smallest network memory that fits all buffers, as options and resulting pools.

    Returns:
        the options and the resulting pools (None before 1.10); None if the process is unknown or Flink
        rejects every value.
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
            memory = derive_with(process, options)
            if memory is not None:
                return options, memory
    found = enough_network(process, size)
    return (dict(found.options), found.memory) if found is not None else None


def more_heap(process: MemoryProcess, share: float, *, managed_is_free: bool) -> Proposal | None:
    """Propose a larger heap. The memory comes from unused managed memory if possible, otherwise from a larger
    process.
    """
    now = current_pools(process)
    if now is None:
        return None
    extra = int(now.heap * share)
    if managed_is_free and now.managed >= extra and m.TASK_HEAP not in process.configured:
        left = (now.managed - extra) // m.MIB * m.MIB
        options = {m.MANAGED: m.as_option(left)}
        memory = derive_with(process, options)
        if memory is not None and memory.heap > now.heap and memory.process <= now.process:
            return Proposal(options=options, memory=memory, keeps_total=True)
    return _larger_process(process, now, {}, lambda memory: memory.heap >= now.heap + extra)


def more_metaspace(process: MemoryProcess, share: float, heap_left: float) -> Proposal | None:
    """Propose a larger metaspace, taken from the heap if at least the share `heap_left` of it remains."""
    now = current_pools(process)
    if now is None:
        return None
    size = _round(int(now.metaspace * (1 + share)))
    options = {"taskmanager.memory.jvm-metaspace.size": m.as_option(size)}
    return _enlarge(process, now, options, heap_left)


def more_direct(process: MemoryProcess, extra: int, heap_left: float) -> Proposal | None:
    """Propose `extra` bytes more direct memory for user code and libraries."""
    now = current_pools(process)
    if now is None:
        return None
    options = {m.TASK_OFF_HEAP: m.as_option(_round(now.task_off_heap + extra))}
    return _enlarge(process, now, options, heap_left)


def more_overhead(process: MemoryProcess, share: float, heap_left: float) -> Proposal | None:
    """Propose more native memory outside the pools."""
    now = current_pools(process)
    if now is None:
        return None
    size = m.as_option(_round(int(now.overhead * (1 + share))))
    prefix = "taskmanager.memory.jvm-overhead"
    options = {f"{prefix}.min": size}
    if m.parse_size(size) > 1024 * m.MIB or f"{prefix}.max" in process.configured:
        options[f"{prefix}.max"] = size
    return _enlarge(process, now, options, heap_left)


def _round(size: int) -> int:
    return -(-size // (16 * m.MIB)) * 16 * m.MIB


def _enlarge(
    process: MemoryProcess, now: m.TaskManagerMemory, options: dict[str, str], heap_left: float
) -> Proposal | None:
    """Keep the total size if enough heap remains, otherwise propose a larger process."""
    memory = derive_with(process, options)
    if memory is not None and memory.process <= now.process and memory.heap >= now.heap * heap_left:
        return Proposal(options=options, memory=memory, keeps_total=True)
    return _larger_process(process, now, options, lambda made: made.heap >= now.heap)


def _larger_process(
    process: MemoryProcess,
    now: m.TaskManagerMemory,
    options: dict[str, str],
    enough: Callable[[m.TaskManagerMemory], bool],
) -> Proposal | None:
    """Return the smallest total (in steps of 64 MB) that meets the condition."""
    key = next((k for k in (m.FLINK, m.PROCESS) if k in process.configured), m.PROCESS)
    if m.FLINK in process.configured and m.PROCESS in process.configured:
        return None  # two totals: one option alone is not enough
    start = now.flink if key == m.FLINK else now.process
    for step in range(_MOST_STEPS):
        total = m.as_option(-(-start // _STEP) * _STEP + step * _STEP)
        memory = derive_with(process, {**options, key: total})
        if memory is not None and enough(memory):
            return Proposal(options={**options, key: total}, memory=memory, keeps_total=False)
    return None


def proposal_action(process: MemoryProcess, proposal: Proposal, text: str) -> Action:
    """Convert a proposal to one action: the first option, with the others in `together`."""
    memory = proposal.memory
    heap, managed, total = map(fmt.size, (memory.heap, memory.managed, memory.process))
    key, *others = proposal.options
    version = version_of(process.version)
    return Action(
        text=text,
        option=key,
        current=h.current_value(key, process.configured.get(key), process.version),
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


_JOBMANAGER_HEAP: Final = Action(
    text="Increase the heap",
    option="jobmanager.memory.process.size",
    measure="the heap in use after full collections; 1.5 times that size is enough",
    restart_needed=True,
)


def room_for_heap(facts: MemoryFacts, process: MemoryProcess) -> Action:
    """Return an action for a heap that fills up: enlarge it by a quarter, then measure again."""
    if process.role == "unknown":
        return replace(
            _JOBMANAGER_HEAP, text="Increase the heap (-Xmx) of this process", option=None
        )
    if process.role != "taskmanager":
        return _JOBMANAGER_HEAP
    text = "Increase the heap, or move the state to RocksDB"
    proposal = more_heap(process, 0.25, managed_is_free=facts.managed_is_free)
    if proposal is not None:
        return proposal_action(process, proposal, text)
    return replace(_JOBMANAGER_HEAP, text=text, option=m.PROCESS)


def network_memory_actions(
    needs: BufferNeeds | None, error: BufferShortage | None
) -> Iterator[Action]:
    """Yield actions that provide enough network buffers.

    Args:
        needs: the memory needs of the TaskManager; None if unknown.
        error: the last error, which gives a lower bound.
    """
    cause = "insufficient-network-buffers"
    process = needs.process if needs is not None else None
    found = enough_buffers(needs) if needs is not None and needs.required else None
    if needs is not None and process is not None and found is not None:
        options, memory = found
        key, *others = options
        segments = needs.smallest // needs.segment_bytes
        yield replace(
            h.remedy_action(
                cause,
                "enough",
                option=key,
                current=process.configured.get(key),
                proposed=options[key],
                version=process.version,
                together={other: options[other] for other in others},
                configured=process.configured,
            ),
            risk=_effect_on_pools(process, memory),
            verify="the pool's line 'Allocated … number of memory segments' shows "
            f"{segments} or more",
        )
        yield h.remedy_action(cause, "fewer")
        return
    least = error.least_bytes if error is not None else None
    size = m.as_option(least) if least else None
    version = error.job.version if error is not None else None
    low, high = network_keys(version)
    yield h.remedy_action(
        cause,
        "at-least",
        option=low,
        proposed=size,
        version=version,
        # A lower bound above the unknown upper bound would prevent the TaskManager from starting.
        together={high: size} if size else {},
    )


def size_option(action: Action, needs: BufferNeeds | None, job: JobFacts | None) -> str:
    """Return the option that limits the number of buffers, whichever bound applies.

    The option is part of the finding's fingerprint.
    """
    if action.option == m.BUFFERS:
        return m.BUFFERS
    process = needs.process if needs is not None else None
    version = process.version if process is not None else job.version if job is not None else None
    return network_keys(version)[0]


def _effect_on_pools(process: MemoryProcess, memory: m.TaskManagerMemory | None) -> str | None:
    if memory is None:
        return None
    now = current_pools(process)
    keeps = now is not None and memory.process <= now.process
    total = "keeps its size" if keeps else f"grows to {fmt.size(memory.process)}"
    return f"afterwards, the heap has {fmt.size(memory.heap)} and the process {total}"


_UNREADABLE: Final = ("Cannot read memory size", "Could not parse")


def option_in(text: str) -> str | None:
    """Return the name of a memory option that a text contains, or None."""
    longest_first = sorted(m.MEMORY_KEYS, key=len, reverse=True)
    return next((key for key in longest_first if key in text), None)


def accepted_changes(process: MemoryProcess, error: str) -> Iterator[Action]:
    """Yield changes of rejected options that the model accepts, smallest first.

    Args:
        process: with the options that Flink rejects.
        error: the model's error.
    """
    known = {k: v for k, v in process.configured.items() if k in m.MEMORY_KEYS}
    if any(words in error for words in _UNREADABLE):
        yield _with_unit(process, option_in(error))
        return
    process_size = f"{process.role}.memory.process.size"
    totals = [k for k in (process_size, f"{process.role}.memory.flink.size") if k in known]
    parts = [key for key in known if key not in totals]
    yield from _without_one(process, known, "leave-out", parts)
    one_total = [*_without_one(process, known, "one-total", totals)] if len(totals) > 1 else []
    yield from one_total or _larger_total(process, known, (*totals, process_size)[0])


_REFUSED: Final = "wrong-memory-options"


def _with_unit(process: MemoryProcess, option: str | None) -> Action:
    """Return an action that rewrites an unreadable size as a number with a unit."""
    text = process.configured.get(option or "")
    size, version = size_bytes(text), version_of(process.version)
    takes_unit = option is not None and h.accepted(option, "1m", version) is not None
    return h.remedy_action(
        _REFUSED,
        "unit",
        option=option,
        current=text,
        proposed=m.as_option(int(size)) if size and takes_unit else None,
        version=process.version,
    )


def _is_accepted(process: MemoryProcess, options: Mapping[str, str]) -> bool:
    derived = derive(process.role, options, process.version, process.container)
    return derived is not None and derived.memory is not None


def _without_one(
    process: MemoryProcess, known: Mapping[str, str], remedy: str, keys: Iterable[str]
) -> Iterator[Action]:
    """Yield the removal of a single option: the first whose removal makes the model accept the rest."""
    for key in keys:
        if _is_accepted(process, {k: v for k, v in known.items() if k != key}):
            yield h.remedy_action(_REFUSED, remedy, option=key, current=known[key], key=key)
            return


def _larger_total(process: MemoryProcess, known: Mapping[str, str], total: str) -> Iterator[Action]:
    """Yield the smallest total that the model accepts, in steps of 64 MB."""
    try:
        start = m.parse_size(known[total]) if known.get(total) else 0
    except m.MemoryOptionError:
        start = 0
    start = -(-(start or 512 * m.MIB) // _STEP) * _STEP
    for step in range(1, _MOST_TOTALS + 1):
        proposed = m.as_option(start + step * _STEP)
        if _is_accepted(process, {**known, total: proposed}):
            yield h.remedy_action(
                _REFUSED,
                "total",
                option=total,
                current=known.get(total),
                proposed=proposed,
                version=process.version,
                change="Raise" if total in known else "Set",
                note="" if process.version else " (calculated for the newest version)",
            )
            return
