"""Describes the parts of a restore: their times, and the remedies for the longest part."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.startup import helpers as h

_PART_WORDS: Final = {
    "download": "downloading state",
    "rebuild": "rebuilding the store from downloaded files",
    "in-flight-data": "reading the in-flight data of an unaligned checkpoint",
}
_REMEDIES: Final = {
    "download": ("local-recovery", "transfer-threads", "smaller"),
    "rebuild": ("ingest", "smaller"),
    "in-flight-data": ("debloat",),
    "slow-restore": ("local-recovery", "smaller"),
}
_OF_SLOWEST: Final = "of the slowest subtask"


def split_text(parts: h.Initialization) -> str:
    """Return a clause about the longest part of a restore, or an empty string if the span has no parts."""
    if parts.longest is None:
        return ""
    name, took = parts.longest
    size = f" of {h.fmt.size(parts.bytes)}" if parts.bytes and name == "download" else ""
    return f"; {h.fmt.duration(took)} of it {_PART_WORDS[name]}{size}"


def span_of(parts: h.Initialization | None) -> h.Cited:
    return [] if parts is None else [(parts.ref, None)]


def remedies_of(cause: str, parts: h.Initialization | None) -> tuple[str, ...]:
    longest = parts.longest if parts is not None else None
    return _REMEDIES.get(longest[0] if longest is not None else cause, ())


def measured_parts(parts: h.Initialization | None) -> h.Iterator[h.Measurement]:
    if parts is not None:
        yield h.measurement("download", parts.download_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("rebuild", parts.rebuild_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("initialize-state", parts.initialize_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("in-flight-data", parts.gate_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("mailbox-start", parts.mailbox_ms, "ms", over=_OF_SLOWEST)
        yield h.measurement("restored-state", parts.bytes, "bytes", over=_OF_SLOWEST)
