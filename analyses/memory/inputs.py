"""Reads the side inputs of `flowdiag memory`: configurations, kubectl output and GC logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.memory.facts import ConfigFile, Kill, Usage
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.flink.container_texts import (
    ended_containers,
    looks_like_kubectl,
    pauses,
    reports_ended_containers,
)
from flowdiag.parsers.flink.options import (
    OptionFile,
    flink_version,
    is_resource,
    looks_like_options,
    read_options,
)
from flowdiag.parsers.yarn.answers import looks_like_yarn

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

_QUARTERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherInputs:
    """The side inputs, and the kinds of the readable sources by index."""

    files: tuple[ConfigFile, ...] = ()
    kills: tuple[Kill, ...] = ()
    usages: tuple[Usage, ...] = ()
    kinds: Mapping[int, str] = field(default_factory=dict)
    unread: Mapping[int, str] = field(default_factory=dict)  # why a source is not read
    version: str | None = None  # Flink's version, from a FlinkDeployment
    names: Mapping[int, str] = field(default_factory=dict)  # names of all inputs, by index
    engine: str | None = None  # the engine of all logs, if they agree


def read_others(sources: Iterable[Source], version: tuple[int, int] | None = None) -> OtherInputs:
    """Read every source that is not a Flink log.

    Args:
        sources: all sources.
        version: Flink's version, if the user sets it. It determines how configurations are parsed.
    """
    from flowdiag.parsers.source import WHOLE_BYTES, source_text

    sources = tuple(sources)
    reading = _Reading(version)
    engines = {source.engine for source in sources if source.kind != "not-read"} - {"unknown"}
    for source in sources:
        if source.size > WHOLE_BYTES:
            continue
        if source.kind not in ("not-read", "log") or source.role in ("jobmanager", "taskmanager"):
            continue
        if text := source_text(source):
            reading.add(source, text)
    return OtherInputs(
        files=tuple(reading.files),
        kills=tuple(reading.kills),
        usages=tuple(reading.usages),
        kinds=reading.kinds,
        unread=reading.unread,
        version=reading.requested,
        names={source.index: source.name for source in sources} if reading.usages else {},
        engine=next(iter(engines)) if len(engines) == 1 else None,
    )


class _Reading:
    """Collects the side inputs, source by source."""

    def __init__(self, version: tuple[int, int] | None) -> None:
        self._version = version
        self.files: list[ConfigFile] = []
        self.kills: list[Kill] = []
        self._seen: set[tuple[object, ...]] = set()
        self.usages: list[Usage] = []
        self.kinds: dict[int, str] = {}
        self.unread: dict[int, str] = {}
        self.requested: str | None = None  # the version that the first deployment requests

    def add(self, source: Source, text: str) -> None:
        """Read the containers in a source, and its options or garbage collections."""
        of_flink = _is_log(source, text)
        if of_flink and not (looks_like_kubectl(text) or looks_like_yarn(text)):
            return
        listed = reports_ended_containers(text)
        if listed:
            # Two servers or two snapshots may report the same end.
            for kill in _kills(source, text):
                same = (kill.reason, kill.pod, kill.exit_code, kill.time_us, kill.text)
                if kill.pod is None or same not in self._seen:
                    self._seen.add(same)
                    self.kills.append(kill)
            self.kinds[source.index] = "kubectl"
        read = None if of_flink else _options_of(text, source.name, self._version)
        if read is not None and not (listed and (read.error or read.several)):
            self._add_options(source, text, read)
        elif not listed and (usage := _usage(source.index, text)) is not None:
            self.usages.append(usage)
            self.kinds[source.index] = "gc-log"

    def _add_options(self, source: Source, text: str, read: OptionFile) -> None:
        if read.several and source.kind == "not-read":
            names = ", ".join(read.several[:5])
            reason = (
                f"it contains {len(read.several)} resources with options ({names}): pass only one"
            )
            self.unread[source.index] = reason
            return
        if self.requested is None and (requested := flink_version(text)):
            self.requested = f"{requested[0]}.{requested[1]}"
            self._version = self._version or requested
            read = _options_of(text, source.name, self._version) or read
        self.files.append(ConfigFile(source=source.index, name=source.name, read=read))
        if source.kind == "not-read":  # a status with an exception is also read as an exception
            self.kinds[source.index] = "configuration"


def _kills(source: Source, text: str) -> Iterator[Kill]:
    for ended in ended_containers(text):
        yield Kill(
            reason=ended.reason,
            exit_code=ended.exit_code,
            pod=ended.pod,
            limit=ended.memory_limit,
            heap=ended.heap,
            node=ended.node,
            component=ended.component,
            text=ended.text,
            ref=Ref(source.index, ended.offset),
            time_us=ended.time_us,
            restarts=ended.restarts,
            count=ended.count,
        )


def _options_of(text: str, name: str, version: tuple[int, int] | None) -> OptionFile | None:
    """Return the options in a text. None if it has none of its own, such as a pod of a FlinkDeployment."""
    if not looks_like_options(text):
        return None
    read = read_options(text, name=name, version=version)  # limits its own size
    content = (
        read.options or read.skipped or read.error or read.trouble or read.carrier or read.several
    )
    return read if content else None


def _is_log(source: Source, text: str) -> bool:
    """Return whether a source is a Flink log or a pod that runs a Flink image.

    An operator resource is a configuration, even if its status quotes an exception.
    """
    found = source.engine == "flink" and source.kind != "not-read"
    return found and not is_resource(text)


def _usage(index: int, text: str) -> Usage | None:
    found = list(pauses(text))
    if not found:
        return None
    full = [pause for pause in found if pause.full]
    size = max(1, -(-len(found) // _QUARTERS))
    quarters = [found[i : i + size] for i in range(0, len(found), size)]
    return Usage(
        samples=len(found),
        first_us=None,
        last_us=None,
        heap_max=max(pause.heap for pause in found),
        floors=tuple(min(pause.after for pause in quarter) for quarter in quarters),
        peak=max(pause.before for pause in found),
        full_pauses=len(full),
        full_pause_ms=sum(pause.ms for pause in full),
        longest_pause_ms=max(pause.ms for pause in found),
        left_after_full=full[-1].after if full else None,
        source=index,
        ref=Ref(index, (full or found)[-1].offset),
    )
