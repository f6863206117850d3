"""The memory model up to Flink 1.9, with one heap, a container cut-off and 32-bit floats."""

from __future__ import annotations

from flowdiag.analyses.memory.model.options import BUFFERS, Options, segment_size
from flowdiag.analyses.memory.model.pools import LegacyMemory
from flowdiag.analyses.memory.model.sizes import MIB, MemoryOptionError, parse_size, widen


def legacy_memory(options: Options, *, container: bool) -> LegacyMemory:
    """Derive a TaskManager up to Flink 1.9 (`ContaineredTaskManagerParameters`, `config.sh`), in whole megabytes."""
    given = old_heap(options, "taskmanager")
    total_mb = (1024 * MIB if given is None else given) // MIB
    cutoff_mb = _cutoff(options, total_mb) if container else 0
    jvm_mb = total_mb - cutoff_mb
    network = _legacy_network(options, jvm_mb * MIB)
    # Scripts of a standalone TaskManager round the network memory down; containers round the heap.
    rest = jvm_mb * MIB - (network if container else network // MIB * MIB)
    size_text = (options.raw("taskmanager.memory.size") or "0").strip()
    managed = None
    heap = rest
    if options.flag("taskmanager.memory.off-heap"):
        managed = _legacy_managed(options, size_text, network, rest, jvm_mb)
        # The scripts round to whole megabytes.
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


def _cutoff(options: Options, total_mb: int) -> int:
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


def _legacy_network(options: Options, base: int) -> int:
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


def _legacy_managed(options: Options, size_text: str, network: int, rest: int, jvm_mb: int) -> int:
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
    """Return a fraction of a size as these versions calculate it, with a product of 32 bits."""
    return int(widen(widen(fraction) * widen(size)))


def _megabytes(text: str) -> int:
    """Return the value in megabytes of an option whose default unit is megabytes."""
    return int(text) if text.isdecimal() else parse_size(text) // MIB


def old_heap(options: Options, process: str) -> int | None:
    """`⟨process⟩.heap.size` or, if it is not set, `⟨process⟩.heap.mb`."""
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
