"""What `flowdiag memory` reads besides logs and answers: configurations, kubectl's texts, GC logs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.keys import Ref
from flowdiag.analyses.memory.facts import ConfigFile, Kill, Usage
from flowdiag.parsers.flink.container_texts import (
    ended_containers,
    looks_like_kubectl,
    pauses,
    tells_of_a_killed_process,
)
from flowdiag.parsers.flink.options import MAX_BYTES, looks_like_options, read_options

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source

_QUARTERS: Final = 4
_RESOURCE: Final = re.compile(
    r"^\s{0,40}\"?apiVersion\"?:\s{0,8}\"?flink\.apache\.org/", re.MULTILINE
)
_DEPLOYED: Final = re.compile(
    r"^[ \t]{0,40}flinkVersion:[ \t]{0,10}[\"']?v?(\d{1,2})[._](\d{1,3})\b", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherInputs:
    """What was read, and which sources that makes readable after all: kind by index."""

    files: tuple[ConfigFile, ...] = ()
    kills: tuple[Kill, ...] = ()
    usages: tuple[Usage, ...] = ()
    kinds: Mapping[int, str] = field(default_factory=dict)
    version: str | None = None  # of Flink, as a FlinkDeployment says it
    names: Mapping[int, str] = field(default_factory=dict)  # of all inputs, by index

    def applied(self, sources: Sequence[Source]) -> tuple[Source, ...]:
        """The sources, those that were read here marked as such."""
        return tuple(
            replace(source, kind=self.kinds[source.index], reason=None)
            if source.index in self.kinds
            else source
            for source in sources
        )


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
        if not of_flink and looks_like_options(text):
            if said is None and (hit := _DEPLOYED.search(text[:MAX_BYTES])):
                said = f"{hit[1]}.{hit[2]}"
                version = version or (int(hit[1]), int(hit[2]))
            read = read_options(text[:MAX_BYTES], name=source.name, version=version)
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
        version=said,
        names={source.index: source.name for source in sources} if usages else {},
    )


def _is_log(source: Source, text: str) -> bool:
    """Whether what tells of Flink is a log, or a pod that runs an image of that name.

    A resource of the operator is a configuration, also where its status quotes an exception.
    """
    found = source.engine == "flink" and source.kind != "not-read"
    return found and _RESOURCE.search(text[:MAX_BYTES]) is None


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
