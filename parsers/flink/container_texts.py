"""Inputs that are no logs of Flink but tell why a process is gone or short of memory.

`kubectl describe pod` and `kubectl get events` as text, and the garbage collector's log of the JVM
(`-Xlog:gc`). Read whole, since they are small; hostile text costs one pass over its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_TEXT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A container that was ended: OOMKilled, Evicted, or an exit code that means a signal."""

    reason: str
    exit_code: int | None
    pod: str | None
    memory_limit: int | None
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One stop of the JVM: sizes in bytes, as printed (whole megabytes)."""

    full: bool
    before: int
    after: int
    heap: int
    ms: float
    offset: int


_NAME: Final = re.compile(r"^Name: {2,40}(\S{1,253})$")
_LIMIT: Final = re.compile(r"^ {2,16}memory: {1,20}([0-9]{1,15})(Ki|Mi|Gi|Ti|k|M|G|T)?$")
_REASON: Final = re.compile(r"^ {2,16}Reason: {1,20}(OOMKilled|Error|Evicted|ContainerCannotRun)\b")
_STATUS: Final = re.compile(r"^(?:Status|Reason): {1,20}(Evicted|Failed)\b")
_EXIT: Final = re.compile(r"^ {2,16}Exit Code: {1,20}([0-9]{1,3})$")
_EVENT: Final = re.compile(
    r"\b(OOMKilling|OOMKilled|Evicted|FailedScheduling|SystemOOM)\b.{0,200}?(?:pod/(\S{1,253}))?"
)
_UNITS: Final = {
    None: 1,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
    "k": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "T": 1000**4,
}
_PAUSE: Final = re.compile(
    r"Pause (Full|Young|Initial Mark|Mixed)\b.{0,120}? ([0-9]{1,9})M->([0-9]{1,9})M"
    r"\(([0-9]{1,9})M\) ([0-9]{1,9}[.,][0-9]{1,6})ms"
)
_DESCRIBED: Final = re.compile(r"^(?:Name|Namespace|Containers|Last State|Events):", re.MULTILINE)


def looks_like_kubectl(text: str) -> bool:
    """Whether a text is what `kubectl describe pod` or `kubectl get events` prints.

    >>> looks_like_kubectl("Name:         a-1\\nNamespace:    b\\n")
    True
    """
    head = text[:65536]
    events = re.match(r"(?:NAMESPACE +)?LAST SEEN +(?:TYPE|REASON)", head) is not None
    return events or len({hit[0] for hit in _DESCRIBED.finditer(head)}) >= 2


def ended_containers(text: str) -> Iterator[Ended]:
    """The containers that were ended, in the order of the text."""
    pod = limit = None
    pending: tuple[str, int, str] | None = None
    code: int | None = None
    found: list[tuple[str, int | None, str | None, int, str]] = []
    offset = 0
    for line in text[:MAX_TEXT].split("\n"):
        start, offset = offset, offset + len(line.encode("utf-8", "replace")) + 1
        line = line.rstrip("\r")[:2000]
        if hit := _NAME.match(line):
            pod, limit = hit[1], None
        elif hit := _LIMIT.match(line):
            limit = int(hit[1]) * _UNITS[hit[2]]
            # Limits stand below the state that they explain.
            yield from _flush(found, limit)
            found = []
        elif hit := _REASON.match(line) or _STATUS.match(line):
            pending, code = (hit[1], start, line.strip()), None
        elif pending and (hit := _EXIT.match(line)):
            code = int(hit[1])
            found.append((pending[0], code, pod, pending[1], f"{pending[2]}, {line.strip()}"))
            pending = None
        elif hit := _EVENT.search(line):
            found.append((hit[1], None, hit[2] or pod, start, line.strip()[:300]))
    if pending:
        found.append((pending[0], code, pod, pending[1], pending[2]))
    yield from _flush(found, limit)


def _flush(
    found: list[tuple[str, int | None, str | None, int, str]], limit: int | None
) -> Iterator[Ended]:
    for reason, exit_code, pod, offset, text in found:
        yield Ended(
            reason=reason,
            exit_code=exit_code,
            pod=pod,
            memory_limit=limit,
            offset=offset,
            text=text,
        )


def pauses(text: str) -> Iterator[Pause]:
    """The stops that a log of the garbage collector tells of (JDK 9 and later)."""
    offset = 0
    for line in text[:MAX_TEXT].split("\n"):
        start, offset = offset, offset + len(line.encode("utf-8", "replace")) + 1
        if "Pause " not in line:
            continue
        hit = _PAUSE.search(line[:1000])
        if hit:
            before, after, heap = (int(hit[i]) * 1024**2 for i in (2, 3, 4))
            yield Pause(
                full=hit[1] == "Full",
                before=before,
                after=after,
                heap=heap,
                ms=float(hit[5].replace(",", ".")),
                offset=start,
            )
