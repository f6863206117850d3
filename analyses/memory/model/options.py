"""Reads the options of the memory model: keys, defaults and typed values, with Flink's error messages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from flowdiag.analyses.memory.model.sizes import (
    MAX_LONG,
    MIB,
    MemoryOptionError,
    human_readable,
    parse_size,
    share,
    widen,
)

Version = tuple[int, int]
LATEST: Final[Version] = (2, 3)

# The syntax of Float.parseFloat, without its hexadecimal and named forms.
_FLOAT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?")
_INTEGER: Final = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A message that Flink logs during the derivation; `level` is INFO or WARN."""

    level: str
    text: str


@dataclass(slots=True)
class Options:
    """The options of one derivation, with typed access, Flink's errors and the messages logged so far."""

    values: Mapping[str, str]
    version: Version
    remarks: list[Remark] = field(default_factory=list)

    def raw(self, key: str) -> str | None:
        """Return the text of an option under its own or a deprecated key."""
        for name in (key, *self.deprecated(key)):
            if name in self.values:
                return self.values[name]
        return None

    def deprecated(self, key: str) -> tuple[str, ...]:
        return _DEPRECATED.get(key, ())

    def __contains__(self, key: str) -> bool:
        return self.raw(key) is not None

    def size(self, key: str) -> int:
        """Return an option that is a size, or its default.

        Raises:
            MemoryOptionError: if there is no valid size.
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
        """Return the default size in this version."""
        if key == NETWORK_MAX:
            return MAX_LONG if self.version >= (1, 17) else 1024 * MIB
        return _SIZES.get(key)

    def fraction(self, key: str) -> float:
        """Return an option that is a fraction, widened to a double."""
        text = self.raw(key)
        if text is None:
            return widen(_FRACTIONS[key])
        stripped = text.strip()
        if _FLOAT.fullmatch(stripped):
            try:
                return widen(stripped.rstrip("fFdD"))
            except (OverflowError, ValueError):
                return math.inf
        raise MemoryOptionError(
            f"Could not parse value '{text}' for key '{key}'.",
            f'For input string: "{stripped}"' if stripped else "empty String",
            bare=True,
        )

    def integer(self, key: str) -> int:
        """Return an option that is a whole number."""
        text = (self.raw(key) or "").strip()
        if _INTEGER.fullmatch(text) and abs(int(text)) < 2**31:
            return int(text)
        raise MemoryOptionError(
            f"Could not parse value '{text}' for key '{key}'.", f'For input string: "{text}"'
        )

    def flag(self, key: str) -> bool:
        return (self.raw(key) or "").strip().lower() == "true"

    def log(self, text: str, level: str = "INFO") -> None:
        remark = Remark(level=level, text=text)
        if remark not in self.remarks:
            self.remarks.append(remark)


@dataclass(frozen=True, slots=True)
class RangeFraction:
    """A fraction with its bounds (Flink's `RangeFraction`)."""

    low: int
    high: int
    fraction: float

    def clip(self, what: str, relative: int, options: Options) -> int:
        if relative > self.high:
            word, bound = "greater than its max", self.high
        elif relative < self.low:
            word, bound = "less than its min", self.low
        else:
            return relative
        end = word.rsplit(" ", 1)[1]
        options.log(
            f"The derived from fraction {what} ({human_readable(relative)}) is {word} value {human_readable(bound)},"
            f" {end} value will be used instead"
        )
        return bound

    def of(self, what: str, base: int, options: Options) -> int:
        return self.clip(what, share(base, self.fraction), options)

    def rest_of_total(self, what: str, rest: int, options: Options) -> int:
        """Return the size of this pool if the other pools of its total add up to `rest`."""
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
"""Every option that the model reads, in any version."""


def read_range(options: Options, low: int, high: int, key: str) -> RangeFraction:
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
            f" (fallback keys: [{old}]) ({_double(fraction)}) and its min ({human_readable(low)}),"
            f" max ({human_readable(high)}) value",
            problem,
        )
    return RangeFraction(low, high, fraction)


def _double(value: float) -> str:
    """Format a fraction as Java prints a double."""
    if math.isinf(value):
        return "-Infinity" if value < 0 else "Infinity"
    return repr(value)


def segment_size(options: Mapping[str, str]) -> int:
    """Return the size of a memory segment in bytes (`ConfigurationParserUtils.getPageSize`).

    Raises:
        MemoryOptionError: if it is below 4 KiB or not a power of two.
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
