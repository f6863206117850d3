"""Flink's memory model: the arithmetic of FLIP-49 and FLIP-116, and that of earlier versions.

Pure functions over options as text. The numbers, remarks and errors match Flink's own calculator to the byte
(`BashJavaUtils`, which calls `TaskExecutorProcessUtils` and `JobManagerProcessUtils`).
`tests/analyses/test_memory_model.py` compares them with its output in ten versions
(`fixtures/recordings/memory`). See catalogue/flink.md section 8.

Common mistakes: fractions are 32-bit floats, widened to doubles and multiplied as decimals (0.1 becomes
0.10000000149011612). Every product is truncated. If a total and its parts are set, the JVM overhead (or the
network memory) is the rest, which must be in its range.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, NoReturn

MAX_LONG: Final = 2**63 - 1
MIB: Final = 1024 * 1024

Version = tuple[int, int]
LATEST: Final[Version] = (2, 3)

_EXACT: Final = Context(prec=60)
_THOUSANDTH: Final = Decimal("0.001")
_UNITS: Final = (
    (("b", "bytes"), 1),
    (("k", "kb", "kibibytes"), 1024),
    (("m", "mb", "mebibytes"), 1024**2),
    (("g", "gb", "gibibytes"), 1024**3),
    (("t", "tb", "tebibytes"), 1024**4),
)
_SIZE: Final = re.compile(r"([0-9]*)(.*)", re.DOTALL)
# What Float.parseFloat takes, but for its hexadecimal and named forms.
_FLOAT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?")
_INTEGER: Final = re.compile(r"[+-]?\d+")


class MemoryOptionError(ValueError):
    """Flink refuses these options. `chain` holds its messages, the outermost first."""

    def __init__(self, *chain: str, bare: bool = False) -> None:
        """Keep the messages; the last is the root cause. `bare`: Flink does not wrap it."""
        super().__init__(chain[0])
        self.chain = chain
        self.bare = bare

    def within(self, wrapper: str) -> MemoryOptionError:
        """Return the error as the process prints it, with its own message in front."""
        return self if self.bare else MemoryOptionError(wrapper + self.chain[0], *self.chain)


# --- sizes ----------------------------------------------------------------------------------------


def parse_size(text: str) -> int:
    """Return the bytes of a size as Flink parses it (`MemorySize.parseBytes`): a whole number, a unit or none.

    Raises:
        MemoryOptionError: with Flink's text.

    >>> parse_size(" 3 GB "), parse_size("512")
    (3221225472, 512)
    """
    trimmed = text.strip()
    if not trimmed:
        raise MemoryOptionError("argument is an empty- or whitespace-only string")
    hit = _SIZE.match(trimmed)
    number, unit = (hit[1], hit[2].strip().lower()) if hit else ("", "")
    if not number:
        raise MemoryOptionError("text does not start with a number")
    value = int(number) if len(number) < 25 else MAX_LONG + 1
    if value > MAX_LONG:
        raise MemoryOptionError(
            f"The value '{number}' cannot be re represented as 64bit number (numeric overflow)."
        )
    multiplier = next((by for words, by in _UNITS if unit in words), None)
    if multiplier is None and unit:
        known = " / ".join("(" + " | ".join(words) + ")" for words, _ in _UNITS)
        raise MemoryOptionError(
            f"Memory size unit '{unit}' does not match any of the recognized units: {known}"
        )
    result = value * (multiplier or 1)
    if result > MAX_LONG:
        raise MemoryOptionError(
            f"The value '{text}' cannot be re represented as 64bit number of bytes"
            " (numeric overflow)."
        )
    return result


def human(size: int) -> str:
    """Return a size as Flink prints it (`MemorySize.toHumanReadableString`).

    >>> human(1811939328), human(1073741824), human(0)
    ('1.688gb (1811939328 bytes)', '1024.000mb (1073741824 bytes)', '0 bytes')
    """
    # The comparison is strict in Flink too: exactly 1 GiB is printed as 1024 MB.
    unit, multiplier = next(
        ((words[1], by) for words, by in reversed(_UNITS) if size > by), ("bytes", 1)
    )
    if multiplier == 1:
        return f"{size} bytes"
    # Java rounds half up where Python rounds half to even.
    amount = Decimal(repr(size / multiplier)).quantize(_THOUSANDTH, ROUND_HALF_UP)
    return f"{amount}{unit} ({size} bytes)"


def as_option(size: int) -> str:
    """Return a size in configuration syntax, in the largest unit without a fraction.

    >>> as_option(1073741824), as_option(134217730), as_option(1536 * 1024 * 1024)
    ('1g', '134217730b', '1536m')
    """
    for letter, multiplier in (("g", 1024**3), ("m", 1024**2), ("k", 1024)):
        if size and size % multiplier == 0:
            return f"{size // multiplier}{letter}"
    return f"{size}b"


def widened(text: str | float) -> float:
    """Return a fraction as Flink calculates with it: rounded to 32 bits, then widened to a double.

    >>> widened("0.1")
    0.10000000149011612
    """
    return float(struct.unpack("f", struct.pack("f", float(text)))[0])


def share(size: int, factor: float) -> int:
    """Return a fraction of a size, truncated (`MemorySize.multiply`).

    >>> share(1342177280, widened("0.4"))
    536870920
    """
    if factor < 0:
        raise MemoryOptionError("multiplier must be >= 0")
    # Java multiplies the shortest decimal of the double, not the double.
    product = int(_EXACT.multiply(Decimal(size), Decimal(repr(factor))))
    if product > MAX_LONG:
        raise MemoryOptionError("long overflow")
    return product


# --- options --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A message that Flink logs during the derivation: `level` is INFO or WARN."""

    level: str
    text: str


@dataclass(slots=True)
class _Options:
    """Options of one derivation: typed access with Flink's errors, and the remarks so far."""

    values: Mapping[str, str]
    version: Version
    remarks: list[Remark] = field(default_factory=list)

    def raw(self, key: str) -> str | None:
        """Return the text of an option, under its own or a deprecated key."""
        for name in (key, *self.deprecated(key)):
            if name in self.values:
                return self.values[name]
        return None

    def deprecated(self, key: str) -> tuple[str, ...]:
        return _DEPRECATED.get(key, ())

    def __contains__(self, key: str) -> bool:
        return self.raw(key) is not None

    def size(self, key: str) -> int:
        """Return the size of an option, or its default.

        Raises:
            MemoryOptionError: no such size.
        """
        text = self.raw(key)
        if text is None:
            default = self.default(key)
            if default is None:
                raise MemoryOptionError(f"Cannot read memory size from config option '{key}'.")
            return default
        try:
            return parse_size(text)
        except MemoryOptionError as error:
            raise MemoryOptionError(
                f"Cannot read memory size from config option '{key}'.",
                f"Could not parse value '{text}' for key '{key}'.",
                *error.chain,
            ) from None

    def default(self, key: str) -> int | None:
        """The default size of this version."""
        if key == NETWORK_MAX:
            return MAX_LONG if self.version >= (1, 17) else 1024 * MIB
        return _SIZES.get(key)

    def fraction(self, key: str) -> float:
        """The fraction of an option, widened."""
        text = self.raw(key)
        if text is None:
            return widened(_FRACTIONS[key])
        stripped = text.strip()
        if _FLOAT.fullmatch(stripped):
            try:
                return widened(stripped.rstrip("fFdD"))
            except (OverflowError, ValueError):
                return math.inf
        raise MemoryOptionError(
            f"Could not parse value '{text}' for key '{key}'.",
            f'For input string: "{stripped}"' if stripped else "empty String",
            bare=True,
        )

    def integer(self, key: str) -> int:
        """A whole number."""
        text = (self.raw(key) or "").strip()
        if _INTEGER.fullmatch(text) and abs(int(text)) < 2**31:
            return int(text)
        raise MemoryOptionError(
            f"Could not parse value '{text}' for key '{key}'.", f'For input string: "{text}"'
        )

    def flag(self, key: str) -> bool:
        return (self.raw(key) or "").strip().lower() == "true"

    def say(self, text: str, level: str = "INFO") -> None:
        remark = Remark(level=level, text=text)
        if remark not in self.remarks:
            self.remarks.append(remark)


@dataclass(frozen=True, slots=True)
class _Range:
    """A fraction with its bounds (`RangeFraction`)."""

    low: int
    high: int
    fraction: float

    def clip(self, what: str, relative: int, options: _Options) -> int:
        if relative > self.high:
            word, bound = "greater than its max", self.high
        elif relative < self.low:
            word, bound = "less than its min", self.low
        else:
            return relative
        end = word.rsplit(" ", 1)[1]
        options.say(
            f"The derived from fraction {what} ({human(relative)}) is {word} value {human(bound)},"
            f" {end} value will be used instead"
        )
        return bound

    def of(self, what: str, base: int, options: _Options) -> int:
        return self.clip(what, share(base, self.fraction), options)

    def beside(self, what: str, rest: int, options: _Options) -> int:
        """Return the part of the total, of which `rest` remains without it."""
        factor = self.fraction / (1 - self.fraction)
        return self.clip(what, share(rest, factor), options)


PROCESS: Final = "taskmanager.memory.process.size"
FLINK: Final = "taskmanager.memory.flink.size"
FRAMEWORK_HEAP: Final = "taskmanager.memory.framework.heap.size"
FRAMEWORK_OFF_HEAP: Final = "taskmanager.memory.framework.off-heap.size"
TASK_HEAP: Final = "taskmanager.memory.task.heap.size"
TASK_OFF_HEAP: Final = "taskmanager.memory.task.off-heap.size"
MANAGED: Final = "taskmanager.memory.managed.size"
MANAGED_FRACTION: Final = "taskmanager.memory.managed.fraction"
NETWORK_FRACTION: Final = "taskmanager.memory.network.fraction"
NETWORK_MIN: Final = "taskmanager.memory.network.min"
NETWORK_MAX: Final = "taskmanager.memory.network.max"
BUFFERS: Final = "taskmanager.network.numberOfBuffers"
SEGMENT: Final = "taskmanager.memory.segment-size"
DEFAULT_SEGMENT: Final = 32 * 1024

_DEPRECATED: Final = {
    MANAGED: ("taskmanager.memory.size",),
    NETWORK_FRACTION: ("taskmanager.network.memory.fraction",),
    NETWORK_MIN: ("taskmanager.network.memory.min",),
    NETWORK_MAX: ("taskmanager.network.memory.max",),
}
_SIZES: Final[Mapping[str, int]] = {
    FRAMEWORK_HEAP: 128 * MIB,
    FRAMEWORK_OFF_HEAP: 128 * MIB,
    TASK_OFF_HEAP: 0,
    NETWORK_MIN: 64 * MIB,
    "taskmanager.memory.jvm-metaspace.size": 256 * MIB,
    "taskmanager.memory.jvm-overhead.min": 192 * MIB,
    "taskmanager.memory.jvm-overhead.max": 1024 * MIB,
    "jobmanager.memory.off-heap.size": 128 * MIB,
    "jobmanager.memory.jvm-metaspace.size": 256 * MIB,
    "jobmanager.memory.jvm-overhead.min": 192 * MIB,
    "jobmanager.memory.jvm-overhead.max": 1024 * MIB,
}
_FRACTIONS: Final = {
    MANAGED_FRACTION: "0.4",
    NETWORK_FRACTION: "0.1",
    "taskmanager.memory.jvm-overhead.fraction": "0.1",
    "jobmanager.memory.jvm-overhead.fraction": "0.1",
}
MEMORY_KEYS: Final = frozenset(
    {
        *_SIZES,
        *_FRACTIONS,
        *(name for names in _DEPRECATED.values() for name in names),
        PROCESS,
        FLINK,
        TASK_HEAP,
        MANAGED,
        NETWORK_MAX,
        BUFFERS,
        SEGMENT,
        "taskmanager.heap.size",
        "taskmanager.heap.mb",
        "taskmanager.memory.fraction",
        "taskmanager.memory.off-heap",
        "taskmanager.memory.preallocate",
        "taskmanager.memory.framework.off-heap.batch-shuffle.size",
        "taskmanager.memory.min-segment-size",
        "containerized.heap-cutoff-ratio",
        "containerized.heap-cutoff-min",
        "jobmanager.memory.process.size",
        "jobmanager.memory.flink.size",
        "jobmanager.memory.heap.size",
        "jobmanager.memory.enable-jvm-direct-memory-limit",
        "jobmanager.heap.size",
        "jobmanager.heap.mb",
    }
)
"""Every option that the model reads, in all versions."""


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskManagerMemory:
    """The pools of a TaskManager from 1.10 on, in bytes."""

    framework_heap: int
    task_heap: int
    framework_off_heap: int
    task_off_heap: int
    network: int
    managed: int
    metaspace: int
    overhead: int

    @property
    def heap(self) -> int:
        """-Xmx and -Xms."""
        return self.framework_heap + self.task_heap

    @property
    def direct(self) -> int:
        """-XX:MaxDirectMemorySize."""
        return self.framework_off_heap + self.task_off_heap + self.network

    @property
    def off_heap(self) -> int:
        """Managed and direct memory."""
        return self.managed + self.direct

    @property
    def flink(self) -> int:
        """Total Flink memory."""
        return self.heap + self.off_heap

    @property
    def process(self) -> int:
        """Total process memory, which is the size of the container."""
        return self.flink + self.metaspace + self.overhead

    @property
    def jvm_parameters(self) -> str:
        """The JVM options that Flink's scripts pass."""
        return (
            f"-Xmx{self.heap} -Xms{self.heap} -XX:MaxDirectMemorySize={self.direct}"
            f" -XX:MaxMetaspaceSize={self.metaspace}"
        )

    def pools(self) -> dict[str, int]:
        """Sizes by the names of Flink's options, totals included."""
        return {
            PROCESS: self.process,
            FLINK: self.flink,
            FRAMEWORK_HEAP: self.framework_heap,
            TASK_HEAP: self.task_heap,
            MANAGED: self.managed,
            FRAMEWORK_OFF_HEAP: self.framework_off_heap,
            TASK_OFF_HEAP: self.task_off_heap,
            "taskmanager.memory.network": self.network,
            "taskmanager.memory.jvm-metaspace.size": self.metaspace,
            "taskmanager.memory.jvm-overhead": self.overhead,
        }

    def report(self) -> list[str]:
        """The block that Flink prints at the start of a TaskManager."""
        rows = (
            ("  Total Process Memory:", self.process),
            ("    Total Flink Memory:", self.flink),
            ("      Total JVM Heap Memory:", self.heap),
            ("        Framework:", self.framework_heap),
            ("        Task:", self.task_heap),
            ("      Total Off-heap Memory:", self.off_heap),
            ("        Managed:", self.managed),
            ("        Total JVM Direct Memory:", self.direct),
            ("          Framework:", self.framework_off_heap),
            ("          Task:", self.task_off_heap),
            ("          Network:", self.network),
            ("    JVM Metaspace:", self.metaspace),
            ("    JVM Overhead:", self.overhead),
        )
        head = "Final TaskExecutor Memory configuration:"
        return [head, *(f"{label:<33}{human(size)}" for label, size in rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobManagerMemory:
    """The pools of a JobManager from 1.11 on, in bytes."""

    heap: int
    off_heap: int
    metaspace: int
    overhead: int
    direct_limit: bool = False

    @property
    def flink(self) -> int:
        """Total Flink memory."""
        return self.heap + self.off_heap

    @property
    def process(self) -> int:
        """Total process memory."""
        return self.flink + self.metaspace + self.overhead

    @property
    def jvm_parameters(self) -> str:
        """The JVM options that Flink's scripts pass."""
        direct = f" -XX:MaxDirectMemorySize={self.off_heap}" if self.direct_limit else ""
        return f"-Xmx{self.heap} -Xms{self.heap}{direct} -XX:MaxMetaspaceSize={self.metaspace}"

    def pools(self) -> dict[str, int]:
        """Sizes by the names of Flink's options, totals included."""
        return {
            "jobmanager.memory.process.size": self.process,
            "jobmanager.memory.flink.size": self.flink,
            "jobmanager.memory.heap.size": self.heap,
            "jobmanager.memory.off-heap.size": self.off_heap,
            "jobmanager.memory.jvm-metaspace.size": self.metaspace,
            "jobmanager.memory.jvm-overhead": self.overhead,
        }

    def report(self) -> list[str]:
        """The block that Flink prints at the start of a JobManager."""
        rows = (
            ("  Total Process Memory:", self.process),
            ("    Total Flink Memory:", self.flink),
            ("      JVM Heap:", self.heap),
            ("      Off-heap:", self.off_heap),
            ("    JVM Metaspace:", self.metaspace),
            ("    JVM Overhead:", self.overhead),
        )
        head = "Final Master Memory configuration:"
        return [head, *(f"{label:<24}{human(size)}" for label, size in rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyMemory:
    """A TaskManager up to 1.9, in bytes; `managed` is None if it is a share of the free heap."""

    total: int
    cutoff: int
    heap: int
    network: int
    managed: int | None
    direct: int | None

    @property
    def jvm_parameters(self) -> str:
        """The JVM options: a standalone TaskManager has practically no limit."""
        size = f"{self.heap // MIB}"
        direct = "8388607T" if self.direct is None else f"{self.direct // MIB}m"
        unit = "M" if self.direct is None else "m"
        return f"-Xms{size}{unit} -Xmx{size}{unit} -XX:MaxDirectMemorySize={direct}"

    def pools(self) -> dict[str, int]:
        """Sizes by the names of the options of those versions."""
        found = {
            "taskmanager.heap.size": self.total,
            "heap": self.heap,
            "taskmanager.network.memory": self.network,
        }
        if self.managed is not None:
            found["taskmanager.memory.size"] = self.managed
        if self.cutoff:
            found["containerized.heap-cutoff"] = self.cutoff
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """The sizes that Flink derives from options.

    Args:
        memory: the pools; None if Flink refuses the options.
        remarks: messages that Flink logs.
        error: messages of Flink's error, the outermost first.
    """

    memory: TaskManagerMemory | JobManagerMemory | LegacyMemory | None
    remarks: tuple[Remark, ...] = ()
    error: tuple[str, ...] = ()


# --- deriving -------------------------------------------------------------------------------------


def taskmanager_memory(
    options: Mapping[str, str], version: Version = LATEST, *, container: bool = False
) -> Derivation:
    """Derive the pools of a TaskManager.

    Args:
        options: configuration keys and their texts.
        version: of Flink; below 1.10 the model of those times.
        container: on YARN, Kubernetes or Mesos, where an old heap option means the whole container.
    """
    view = _Options(options, version)
    try:
        if version < (1, 10):
            return Derivation(memory=_legacy(view, container=container))
        if version < (2, 0):
            view = _with_old_heap(view, "taskmanager", PROCESS if container else FLINK)
        memory = _taskmanager(view)
    except MemoryOptionError as error:
        return Derivation(memory=None, remarks=tuple(view.remarks), error=error.chain)
    return Derivation(memory=memory, remarks=tuple(view.remarks))


def jobmanager_memory(
    options: Mapping[str, str], version: Version = LATEST, *, container: bool = False
) -> Derivation:
    """Derive the pools of a JobManager from 1.11 on; earlier versions have only a heap."""
    view = _Options(options, version)
    try:
        if version < (1, 11):
            heap = _old_heap(view, "jobmanager")
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


def _old_heap(options: _Options, process: str) -> int | None:
    """`⟨process⟩.heap.size`, else `⟨process⟩.heap.mb`."""
    if f"{process}.heap.size" in options:
        return options.size(f"{process}.heap.size")
    if f"{process}.heap.mb" in options:
        megabytes = options.integer(f"{process}.heap.mb")
        if megabytes < 0:
            raise MemoryOptionError(
                f"Configured total process memory size ({megabytes}MB) must not be less than 0."
            )
        return megabytes * MIB
    return None


def _with_old_heap(options: _Options, process: str, key: str) -> _Options:
    """Use an option of 1.9 for a new one (`MemoryBackwardsCompatibilityUtils`)."""
    if key in options:
        return options
    try:
        heap = _old_heap(options, process)
    except MemoryOptionError as error:
        if options.version >= (1, 11) and process == "taskmanager":
            wrapper = "TaskManager failed to map legacy JVM heap option to the new one: "
            raise MemoryOptionError(wrapper + error.chain[0], *error.chain) from None
        raise
    if heap is None:
        return options
    options.say(
        f"'{key}' is not specified, use the configured deprecated task manager heap value"
        f" ({human(heap)}) for it."
    )
    return _Options({**options.values, key: f"{heap}b"}, options.version, options.remarks)


def _taskmanager(options: _Options) -> TaskManagerMemory:
    prefix = "taskmanager.memory"
    try:
        if TASK_HEAP in options and MANAGED in options:
            pools = _from_parts(options)
            metaspace, overhead = _around(options, prefix, sum(pools.values()))
        elif FLINK in options:
            total = options.size(FLINK)
            pools = _from_flink(options, total)
            metaspace, overhead = _around(options, prefix, total)
        elif PROCESS in options:
            metaspace, overhead, total = _within(options, prefix)
            pools = _from_flink(options, total)
        else:
            _nothing_configured(options)
    except MemoryOptionError as error:
        if options.version >= (1, 11):
            raise error.within("TaskManager memory configuration failed: ") from None
        raise
    return TaskManagerMemory(**pools, metaspace=metaspace, overhead=overhead)


def _nothing_configured(options: _Options) -> NoReturn:
    if options.version < (1, 11):
        raise MemoryOptionError(
            f"Either Task Heap Memory size ({TASK_HEAP}) and Managed Memory size ({MANAGED}), or"
            f" Total Flink Memory size ({FLINK}), or Total Process Memory size ({PROCESS}) need to"
            " be configured explicitly."
        )
    raise MemoryOptionError(_either(f"{TASK_HEAP} and {MANAGED}", FLINK, PROCESS))


def _either(parts: str, flink: str, process: str) -> str:
    return (
        f"Either required fine-grained memory ({parts}), or Total Flink Memory size"  # english: quoted
        f" (Key: '{flink}' , default: null (fallback keys: [])), or Total Process Memory size"
        f" (Key: '{process}' , default: null (fallback keys: [])) need to be configured explicitly."
    )


def _from_parts(options: _Options) -> dict[str, int]:
    """Derive the pools from task heap and managed memory: the network gets its share of the total."""
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
        network = _network_range(options).beside("network memory", rest, options)
    return {**pools, "network": network}


def _from_flink(options: _Options, total: int) -> dict[str, int]:
    """Derive the pools from total Flink memory: managed and network memory are shares, task heap is the rest."""
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
            f"Sum of configured Framework Heap Memory ({human(pools['framework_heap'])}),"
            f" Framework Off-Heap Memory ({human(pools['framework_off_heap'])}),"
            f" Task Off-Heap Memory ({human(pools['task_off_heap'])}),"
            f" Managed Memory ({human(pools['managed'])})"
            f" and Network Memory ({human(pools['network'])})"
            f" exceed configured Total Flink Memory ({human(total)})."
        )
    return {**pools, "task_heap": total - sum(pools.values())}


def _managed(options: _Options, total: int) -> int:
    if MANAGED in options:
        return options.size(MANAGED)
    whole = _range(options, 0, MAX_LONG, MANAGED_FRACTION)
    return whole.of("managed memory", total, options)


def _rest_for_network(options: _Options, pools: Mapping[str, int], total: int) -> int:
    if sum(pools.values()) > total:
        raise MemoryOptionError(
            f"Sum of configured Framework Heap Memory ({human(pools['framework_heap'])}),"
            f" Framework Off-Heap Memory ({human(pools['framework_off_heap'])}),"
            f" Task Heap Memory ({human(pools['task_heap'])}),"
            f" Task Off-Heap Memory ({human(pools['task_off_heap'])})"
            f" and Managed Memory ({human(pools['managed'])})"
            f" exceed configured Total Flink Memory ({human(total)})."
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


def _check_network(options: _Options, network: int, total: int) -> None:
    if _counts_buffers(options):
        counted = _counted_buffers(options)
        if counted != network:
            raise MemoryOptionError(
                f"Derived Network Memory size ({human(network)}) does not match configured Network"
                f" Memory size ({human(counted)})."
            )
        return
    allowed = _network_range(options)
    if not allowed.low <= network <= allowed.high:
        raise MemoryOptionError(
            f"Derived Network Memory size ({human(network)}) is not in configured Network Memory"
            f" range [{human(allowed.low)}, {human(allowed.high)}]."
        )
    if NETWORK_FRACTION in options and network != share(total, allowed.fraction):
        options.say(
            f"The derived Network Memory size ({human(network)}) does not match the configured"
            f" Network Memory fraction ({allowed.fraction}) from the configured Total Flink Memory"
            f" size ({human(total)}). The derived Network Memory size will be used."
        )


def _counts_buffers(options: _Options) -> bool:
    """Return whether `numberOfBuffers` is in effect: up to 1.20, if none of the newer options is set."""
    newer = any(key in options for key in (NETWORK_MIN, NETWORK_MAX, NETWORK_FRACTION))
    return options.version < (2, 0) and BUFFERS in options and not newer


def _counted_buffers(options: _Options) -> int:
    return options.integer(BUFFERS) * segment_size(options.values)


def segment_size(options: Mapping[str, str]) -> int:
    """Return the bytes of a memory segment (`ConfigurationParserUtils.getPageSize`).

    Raises:
        MemoryOptionError: below 4 KiB, or not a power of two.
    """
    text = options.get(SEGMENT)
    if text is None:
        return DEFAULT_SEGMENT
    try:
        size = parse_size(text)
    except MemoryOptionError as error:
        raise MemoryOptionError(
            f"Could not parse value '{text}' for key '{SEGMENT}'.", *error.chain
        ) from None
    for wrong, why in (
        (size < 4096, "Minimum memory segment size is 4096"),
        (size & (size - 1) != 0, "Memory segment size must be a power of 2."),
    ):
        if wrong:
            raise MemoryOptionError(f"Invalid configuration value for {SEGMENT} : {size} - {why}")
    return size


def _network_range(options: _Options) -> _Range:
    low, high = options.size(NETWORK_MIN), options.size(NETWORK_MAX)
    return _range(options, low, high, NETWORK_FRACTION)


def _overhead_range(options: _Options, prefix: str) -> _Range:
    low = options.size(f"{prefix}.jvm-overhead.min")
    high = options.size(f"{prefix}.jvm-overhead.max")
    return _range(options, low, high, f"{prefix}.jvm-overhead.fraction")


def _range(options: _Options, low: int, high: int, key: str) -> _Range:
    fraction = options.fraction(key)
    problem = None
    if low > high:
        problem = "min value must be less or equal to max value"
    elif not 0 <= fraction < 1:
        problem = "fraction must be in range [0, 1)"
    if problem:
        old = ", ".join(f"{{key={name}, isDeprecated=true}}" for name in options.deprecated(key))
        raise MemoryOptionError(
            f"Inconsistently configured Key: '{key}' , default: {_FRACTIONS[key]}"
            f" (fallback keys: [{old}]) ({_double(fraction)}) and its min ({human(low)}),"
            f" max ({human(high)}) value",
            problem,
        )
    return _Range(low, high, fraction)


def _double(value: float) -> str:
    """Return a double as Java prints it, for the possible values of a fraction."""
    if math.isinf(value):
        return "-Infinity" if value < 0 else "Infinity"
    return repr(value)


def _within(options: _Options, prefix: str) -> tuple[int, int, int]:
    """Return metaspace, overhead and the rest for Flink, from the total process memory."""
    total = options.size(f"{prefix}.process.size")
    metaspace = options.size(f"{prefix}.jvm-metaspace.size")
    overhead = _overhead_range(options, prefix).of("jvm overhead memory", total, options)
    if metaspace + overhead > total:
        raise MemoryOptionError(
            f"Sum of configured JVM Metaspace ({human(metaspace)}) and JVM Overhead"
            f" ({human(overhead)}) exceed configured Total Process Memory ({human(total)})."
        )
    return metaspace, overhead, total - metaspace - overhead


def _around(options: _Options, prefix: str, flink: int) -> tuple[int, int]:
    """Return metaspace and overhead for a known total Flink memory."""
    metaspace = options.size(f"{prefix}.jvm-metaspace.size")
    process = f"{prefix}.process.size"
    if process not in options:
        allowed = _overhead_range(options, prefix)
        return metaspace, allowed.beside("jvm overhead memory", flink + metaspace, options)
    total = options.size(process)
    if total < flink + metaspace:
        if options.version < (1, 11):
            raise MemoryOptionError("bytes must be >= 0")
        raise MemoryOptionError(
            f"The configured Total Process Memory size ({human(total)}) is less than the sum of the"
            f" derived Total Flink Memory size ({human(flink)}) and the configured or default JVM"
            f" Metaspace size  ({human(metaspace)})."
        )
    overhead = total - flink - metaspace
    allowed = _overhead_range(options, prefix)
    if not allowed.low <= overhead <= allowed.high:
        raise MemoryOptionError(
            f"Derived JVM Overhead size ({human(overhead)}) is not in configured JVM Overhead range"
            f" [{human(allowed.low)}, {human(allowed.high)}]."
        )
    if f"{prefix}.jvm-overhead.fraction" in options and overhead != share(total, allowed.fraction):
        # Flink's own words, with their changes of 1.11 and (a typing error) of 1.15 or 1.16.
        what = "configured or default" if options.version >= (1, 11) else "configured"
        name = "Overhead" if options.version >= _OVERHEAD_SPELT else "OVerhead"
        options.say(
            f"The derived JVM Overhead size ({human(overhead)}) does not match the {what} JVM"
            f" Overhead fraction ({allowed.fraction}) from the configured Total Process Memory size"
            f" ({human(total)}). The derived JVM {name} size will be used."
        )
    return metaspace, overhead


_OVERHEAD_SPELT: Final[Version] = (1, 16)


def _jobmanager(options: _Options) -> JobManagerMemory:
    prefix = "jobmanager.memory"
    heap_key, flink_key = f"{prefix}.heap.size", f"{prefix}.flink.size"
    process_key, off_heap_key = f"{prefix}.process.size", f"{prefix}.off-heap.size"
    try:
        if heap_key in options:
            heap, off_heap = options.size(heap_key), options.size(off_heap_key)
            if flink_key in options:
                off_heap = _rest_off_heap(options, heap, off_heap)
            _check_heap(options, heap)
            metaspace, overhead = _around(options, prefix, heap + off_heap)
        elif flink_key in options or process_key in options:
            if flink_key in options:
                total = options.size(flink_key)
                heap, off_heap = _rest_heap(options, total)
                metaspace, overhead = _around(options, prefix, total)
            else:
                metaspace, overhead, total = _within(options, prefix)
                heap, off_heap = _rest_heap(options, total)
        else:
            raise MemoryOptionError(_either(heap_key, flink_key, process_key))
    except MemoryOptionError as error:
        if options.version >= (2, 0):
            raise
        raise error.within("JobManager memory configuration failed: ") from None
    return JobManagerMemory(
        heap=heap,
        off_heap=off_heap,
        metaspace=metaspace,
        overhead=overhead,
        direct_limit=options.flag(f"{prefix}.enable-jvm-direct-memory-limit"),
    )


def _rest_off_heap(options: _Options, heap: int, off_heap: int) -> int:
    total = options.size("jobmanager.memory.flink.size")
    advice = (
        "Please, make the configuration consistent or configure only one option: either JVM Heap"
        " or Total Flink Memory."
    )
    if heap > total:
        raise MemoryOptionError(
            f"The configured JVM Heap Memory ({human(heap)}) exceeds the configured Total Flink"
            f" Memory ({human(total)}). {advice}"
        )
    if "jobmanager.memory.off-heap.size" in options:
        if heap + off_heap != total:
            raise MemoryOptionError(
                f"Sum of the configured JVM Heap Memory ({human(heap)}) and the configured Off-heap"
                f" Memory ({human(off_heap)}) does not match the configured Total Flink Memory"
                f" ({human(total)}). {advice}"
            )
        return off_heap
    rest = total - heap
    if rest != off_heap:
        options.say(
            f"The Off-Heap Memory size ({human(rest)}) is derived the configured Total Flink Memory"
            f" size ({human(total)}) minus the configured JVM Heap Memory size ({human(heap)})."
            f" The default Off-Heap Memory size ({human(off_heap)}) is ignored."
        )
    return rest


def _rest_heap(options: _Options, total: int) -> tuple[int, int]:
    off_heap = options.size("jobmanager.memory.off-heap.size")
    if total <= off_heap:
        raise MemoryOptionError(
            f"The configured Total Flink Memory ({human(total)}) is less than the configured"
            f" Off-heap Memory ({human(off_heap)})."
        )
    _check_heap(options, total - off_heap)
    return total - off_heap, off_heap


def _check_heap(options: _Options, heap: int) -> None:
    if heap < 128 * MIB:
        options.say(
            f"The configured or derived JVM heap memory size ({human(heap)}) is less than its"
            f" recommended minimum value ({human(128 * MIB)})",
            "WARN",
        )


# --- before 1.10 ----------------------------------------------------------------------------------


def _legacy(options: _Options, *, container: bool) -> LegacyMemory:
    """Derive a TaskManager up to 1.9 (`ContaineredTaskManagerParameters`, `config.sh`), in whole megabytes."""
    given = _old_heap(options, "taskmanager")
    total_mb = (1024 * MIB if given is None else given) // MIB
    cutoff_mb = _cutoff(options, total_mb) if container else 0
    jvm_mb = total_mb - cutoff_mb
    network = _legacy_network(options, jvm_mb * MIB)
    # The scripts of a standalone TaskManager round the network down, containers the heap.
    rest = jvm_mb * MIB - (network if container else network // MIB * MIB)
    size_text = (options.raw("taskmanager.memory.size") or "0").strip()
    managed = None
    heap = rest
    if options.flag("taskmanager.memory.off-heap"):
        managed = _legacy_managed(options, size_text, network, rest, jvm_mb)
        # The scripts round it to whole megabytes.
        heap = rest - (managed if container else round(managed / MIB) * MIB)
    elif size_text not in ("0", "-1"):
        managed = _megabytes(size_text) * MIB
    heap_mb = heap // MIB
    return LegacyMemory(
        total=total_mb * MIB,
        cutoff=cutoff_mb * MIB,
        heap=heap_mb * MIB,
        network=network,
        managed=managed,
        direct=(total_mb - heap_mb) * MIB if container else None,
    )


def _cutoff(options: _Options, total_mb: int) -> int:
    ratio = float(options.raw("containerized.heap-cutoff-ratio") or "0.25")
    least = int(options.raw("containerized.heap-cutoff-min") or "600")
    if not 0 < ratio < 1:
        raise MemoryOptionError(
            "The configuration value 'containerized.heap-cutoff-ratio' must be between 0 and 1."
            f" Value given={ratio}"
        )
    if least >= total_mb:
        raise MemoryOptionError(
            f"The configuration value 'containerized.heap-cutoff-min'='{least}' is larger than the"
            f" total container memory {total_mb}"
        )
    return max(least, _float_share(total_mb, str(ratio)))


def _legacy_network(options: _Options, base: int) -> int:
    fraction, low, high = (
        options.values.get(f"taskmanager.network.memory.{name}")
        for name in ("fraction", "min", "max")
    )
    if fraction is None and low is None and high is None and BUFFERS in options:
        return options.integer(BUFFERS) * segment_size(options.values)
    low_bytes, high_bytes = parse_size(low or "64m"), parse_size(high or "1g")
    share_of = _float_share(base, fraction or "0.1")
    network = min(high_bytes, max(low_bytes, share_of))
    if network >= base:
        raise MemoryOptionError(
            f"Network buffer memory size too large: {network} >= {base} (total JVM memory size)"
        )
    return network


def _legacy_managed(options: _Options, size_text: str, network: int, rest: int, jvm_mb: int) -> int:
    if size_text not in ("0", "-1"):
        managed = _megabytes(size_text) * MIB
        if managed >= rest:
            raise MemoryOptionError(
                f"Invalid configuration value for taskmanager.memory.size : {managed}"
                f" - Managed memory size too large for {network // MIB} MB network buffer memory"
                f" and a total of {jvm_mb} MB JVM memory"
            )
        return managed
    return _float_share(rest, options.raw("taskmanager.memory.fraction") or "0.7")


def _float_share(size: int, fraction: str) -> int:
    """Return a fraction of a size as in these versions: the product itself is a 32-bit float."""
    return int(widened(widened(fraction) * widened(size)))


def _megabytes(text: str) -> int:
    """Return the megabytes of an option whose default unit is megabytes."""
    return int(text) if text.isdecimal() else parse_size(text) // MIB
