"""What `flowdiag memory` reads besides logs and answers: configurations, kubectl's texts, GC logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.keys import Ref
from flowdiag.analyses.memory.facts import ConfigFile, Kill, Usage
from flowdiag.parsers.flink.container_texts import (
    ended_containers,
    looks_like_kubectl,
    pauses,
    tells_of_a_killed_process,
)
from flowdiag.parsers.flink.options import (
    MAX_BYTES,
    OptionFile,
    flink_version,
    is_resource,
    looks_like_options,
    read_options,
)

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source

_QUARTERS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherInputs:
    """What was read, and which sources that makes readable after all: kind by index."""

    files: tuple[ConfigFile, ...] = ()
    kills: tuple[Kill, ...] = ()
    usages: tuple[Usage, ...] = ()
    kinds: Mapping[int, str] = field(default_factory=dict)
    unread: Mapping[int, str] = field(default_factory=dict)  # why a source is not read, by index
    version: str | None = None  # of Flink, as a FlinkDeployment says it
    names: Mapping[int, str] = field(default_factory=dict)  # of all inputs, by index


def read_others(sources: Iterable[Source], version: tuple[int, int] | None = None) -> OtherInputs:
    """Read every source that is no log of Flink.

    Args:
        sources: what was found.
        version: of Flink, where the user says it: it decides how a configuration is read.
    """
    from flowdiag.parsers.sources.open import WHOLE_BYTES, text_of

    files: list[ConfigFile] = []
    kills: list[Kill] = []
    usages: list[Usage] = []
    kinds: dict[int, str] = {}
    unread: dict[int, str] = {}
    said: str | None = None
    sources = tuple(sources)
    for source in sources:
        if source.size > WHOLE_BYTES:
            continue
        if source.kind not in ("not-read", "log") or source.role in ("jobmanager", "taskmanager"):
            continue
        text = text_of(source)
        if not text:
            continue
        of_flink = _is_log(source, text)
        if of_flink and not looks_like_kubectl(text):
            continue
        read = None if of_flink else _options_of(text, source.name, version)
        if read is not None and read.several and source.kind == "not-read":
            names = ", ".join(read.several[:5])
            told = f"it holds {len(read.several)} resources with options ({names}): give it one"
            unread[source.index] = told
        elif read is not None:
            if said is None and (asked := flink_version(text)):
                said = f"{asked[0]}.{asked[1]}"
                version = version or asked
                read = _options_of(text, source.name, version) or read
            files.append(ConfigFile(source=source.index, name=source.name, read=read))
            if source.kind == "not-read":  # a status that quotes an exception is read as that, too
                kinds[source.index] = "configuration"
        elif looks_like_kubectl(text) or tells_of_a_killed_process(text):
            kills += [
                Kill(
                    reason=ended.reason,
                    exit_code=ended.exit_code,
                    pod=ended.pod,
                    limit=ended.memory_limit,
                    text=ended.text,
                    ref=Ref(source.index, ended.offset),
                )
                for ended in ended_containers(text)
            ]
            kinds[source.index] = "kubectl"
        else:
            usage = _usage(source.index, text)
            if usage is not None:
                usages.append(usage)
                kinds[source.index] = "gc-log"
    return OtherInputs(
        files=tuple(files),
        kills=tuple(kills),
        usages=tuple(usages),
        kinds=kinds,
        unread=unread,
        version=said,
        names={source.index: source.name for source in sources} if usages else {},
    )


def _options_of(text: str, name: str, version: tuple[int, int] | None) -> OptionFile | None:
    """The options in a text; None where it holds none, as a pod that belongs to a FlinkDeployment does not."""
    if not looks_like_options(text):
        return None
    read = read_options(text[:MAX_BYTES], name=name, version=version)
    told = (
        read.options or read.skipped or read.error or read.trouble or read.carrier or read.several
    )
    return read if told else None


def _is_log(source: Source, text: str) -> bool:
    """Whether what tells of Flink is a log, or a pod that runs an image of that name.

    A resource of the operator is a configuration, also where its status quotes an exception.
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
