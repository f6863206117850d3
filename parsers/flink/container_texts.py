"""Inputs that are no logs of Flink but tell why a process is gone or short of memory.

`kubectl describe pod`, `get pods`, `get pod -o yaml|json` and `get events` as text, what the kernel (`dmesg`) and
YARN's NodeManager say of a process that they killed for its memory, and the garbage collector's log of the JVM
(`-Xlog:gc`). Read whole, since they are small; hostile text costs one pass over its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from flowdiag.parsers.units import KUBERNETES_UNITS, size_bytes

MAX_TEXT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A container that was ended or is not started: OOMKilled, Evicted, ImagePullBackOff, or an exit code of a signal."""

    reason: str
    exit_code: int | None
    pod: str | None
    memory_limit: int | None
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One stop of the JVM: sizes in bytes, as printed (whole megabytes).

    `full`: nobody gets memory before it is over: a full or a degenerated collection, or a cycle that threads stall
    for; then `ms` is the longest stall. `uptime_s`, `time_us`: when it ended, since the JVM began and by its clock,
    as far as the log prints either.
    """

    full: bool
    before: int
    after: int
    heap: int
    ms: float
    offset: int
    uptime_s: float | None = None
    time_us: int | None = None


_NAME: Final = re.compile(r"^Name: {2,40}(\S{1,253})$")
_LIMIT: Final = re.compile(r"^ {2,16}memory: {1,20}([0-9]{1,15}(?:Ki|Mi|Gi|Ti|k|M|G|T)?)$")
_REASON: Final = re.compile(r"^ {2,16}Reason: {1,20}(OOMKilled|Error|Evicted|ContainerCannotRun)\b")
_STATUS: Final = re.compile(r"^(?:Status|Reason): {1,20}(Evicted|Failed)\b")
_EXIT: Final = re.compile(r"^ {2,16}Exit Code: {1,20}([0-9]{1,3})$")
_EVENT: Final = re.compile(
    r"\b(OOMKilling|OOMKilled|Evicted|FailedScheduling|SystemOOM)\b(?:[^\n]{0,200}?\bpod/(\S{1,253}))?"
)
# `[2026-11-22T18:49:19.123+0000][12.345s][info][gc]`, either or both; up to Java 8 `DATE: 12.345: [GC`.
_DECORATED: Final = re.compile(
    r"(?:\[?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3}[+-]\d{4})(?:\]|: ?))?"
    r"(?:\[([0-9]{1,12}[.,][0-9]{3})s\]|([0-9]{1,12}[.,][0-9]{3}): )?"
)
_PAUSE: Final = re.compile(
    r"Pause (Full|Degenerated GC|Young|Initial Mark|Mixed)\b.{0,120}? ([0-9]{1,9})M->([0-9]{1,9})M"
    r"\(([0-9]{1,9})M\) ([0-9]{1,9}[.,][0-9]{1,6})ms"
)
# Up to Java 8 (-XX:+PrintGCDetails): the sizes of the whole heap stand last in front of the time; G1 has
# them on a line of their own, behind the line with the time.
_OLD: Final = re.compile(
    r"\[(Full GC|GC)\b[^\n]{0,400}?\]? ([0-9]{1,12})([KM])->([0-9]{1,12})([KM])\(([0-9]{1,12})([KM])\)"
    r"(?:, \[[^\]\n]{0,200}\])?, ([0-9]{1,9}[.,][0-9]{1,9}) secs\]"
)
_OLD_G1: Final = re.compile(
    r"\[(Full GC|GC pause)\b[^\n]{0,200}?, ([0-9]{1,9}[.,][0-9]{1,9}) secs\]"
)
_OLD_HEAP: Final = re.compile(
    r"Heap: ([0-9]{1,9}(?:[.,][0-9]{1,3})?)([BKMG])\([^)\n]{1,30}\)->"
    r"([0-9]{1,9}(?:[.,][0-9]{1,3})?)([BKMG])\(([0-9]{1,9}(?:[.,][0-9]{1,3})?)([BKMG])\)"
)
# Collectors that hardly stop: the sizes of a whole cycle.
_CYCLE: Final = re.compile(
    r"\bGC\([0-9]{1,9}\) (?:[YO]: )?(?:Garbage Collection|Major Collection|Minor Collection)\b[^\n]{0,120}? "
    r"([0-9]{1,9})M\(([0-9]{1,3})%\)->([0-9]{1,9})M\([0-9]{1,3}%\)"
)
# Threads of a collector that hardly stops wait for the end of its cycle where there is no memory left (ZGC).
_STALL: Final = re.compile(
    r"\bgc\b[^\n]{0,40}\] Allocation Stall \([^\n]{1,200}\) ([0-9]{1,9}[.,][0-9]{1,6})ms"
)
# The line of names above a list of events or of pods.
_LISTED: Final = re.compile(
    r"^(?:NAMESPACE +)?(?:LAST SEEN +(?:TYPE|REASON)|NAME +READY +STATUS +RESTARTS)\b", re.MULTILINE
)
_POD: Final = re.compile(
    r"^(?:[a-z0-9.-]{1,253} +)?(?P<pod>[a-z0-9][a-z0-9.-]{0,252}) +[0-9]{1,3}/[0-9]{1,3} +"
    r"(?P<status>(?:Init:)?(?:OOMKilled|Evicted|Error|ContainerCannotRun|ExitCode:[0-9]{1,3}"
    r"|ImagePullBackOff|ErrImagePull|InvalidImageName|CrashLoopBackOff))(?= )"
)
# Why a container is not started. The first word of an event is its reason, "Failed" for an image.
_WAITS: Final = re.compile(r"\b(ImagePullBackOff|ErrImagePull|InvalidImageName|CrashLoopBackOff)\b")
_NO_IMAGE: Final = re.compile(r"\bFailed to pull image\b")
_CRASHES: Final = re.compile(r"\bBack-off restarting failed container\b")
_OF_POD: Final = re.compile(r"\bpod/(\S{1,253})")
# What is over: the pod has got its node, or its image.
_OVER: Final = {
    "Scheduled": ("FailedScheduling",),
    "Pulled": ("ImagePullBackOff", "ErrImagePull"),
}
_GOES_ON: Final = re.compile(r"\bNormal {1,20}(Scheduled|Pulled)\b")
_SIZES: Final = {"B": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_DESCRIBED: Final = re.compile(r"^(?:Name|Namespace|Containers|Last State|Events):", re.MULTILINE)
# A row of `get events` without the line of names above it.
_EVENT_ROW: Final = re.compile(
    r"^(?:\S{1,253} +)?\S{1,20} +(?:Warning|Normal) +[A-Z]\w{1,60} +pod/\S", re.MULTILINE
)
# `get pod -o yaml|json`: the status of its containers.
_PRINTED: Final = re.compile(r"^\s{0,40}\"?containerStatuses\"?:", re.MULTILINE)
_METADATA: Final = re.compile(r"^[\s-]{0,40}\"?metadata\"?:")
_PRINTED_NAME: Final = re.compile(r"^[\s-]{0,40}\"?name\"?: \"?([a-z0-9][a-z0-9.-]{0,252})\"?,?$")
_PRINTED_REASON: Final = re.compile(
    r"^[\s-]{0,40}\"?reason\"?: \"?(OOMKilled|Evicted|ImagePullBackOff|ErrImagePull|InvalidImageName"
    r"|CrashLoopBackOff)\"?,?$"
)
_PRINTED_EXIT: Final = re.compile(r"^[\s-]{0,40}\"?exitCode\"?: ([0-9]{1,3}),?$")
# The kernel's out-of-memory killer, and YARN's monitor of containers.
_KERNEL: Final = re.compile(
    r"out of memory: Kill(?:ed)? process [0-9]{1,9} \(java\)", re.IGNORECASE
)
_YARN: Final = re.compile(
    r"containerID=(container_[0-9A-Za-z_]{10,80})\][^\n]{0,200}? beyond (?:the )?'?(?i:physical|virtual)'? memory limit"
)
_MESSAGE: Final = re.compile(r"^ {0,16}Message: {1,20}(\S.*)$")


def looks_like_kubectl(text: str) -> bool:
    """Whether a text is what `kubectl describe pod`, `get pods` or `get events` prints.

    >>> looks_like_kubectl("Name:         a-1\\nNamespace:    b\\n")
    True
    >>> looks_like_kubectl("$ kubectl get pods\\nNAME   READY   STATUS   RESTARTS   AGE\\n")
    True
    """
    head = text[:65536]
    if len({hit[0] for hit in _DESCRIBED.finditer(head)}) >= 2:
        return True
    return any(pattern.search(head) is not None for pattern in (_LISTED, _EVENT_ROW, _PRINTED))


def tells_of_a_killed_process(text: str) -> bool:
    """Whether the kernel or YARN says in a text that it killed a process for its memory.

    >>> tells_of_a_killed_process("[12.3] Memory cgroup out of memory: Killed process 47 (java) total-vm:9kB")
    True
    """
    return any(pattern.search(text[:65536]) is not None for pattern in (_KERNEL, _YARN))


def ended_containers(text: str) -> Iterator[Ended]:
    """The containers that were ended, in the order of the text."""
    if _PRINTED.search(text[:MAX_TEXT]) is not None:
        yield from _printed_pods(text)
        return
    pod = limit = None
    pending: tuple[str, int, str] | None = None
    code: int | None = None
    found: list[tuple[str, int | None, str | None, int, str]] = []
    offset = 0
    for line in text[:MAX_TEXT].split("\n"):
        start, offset = offset, offset + len(line.encode("utf-8", "replace")) + 1
        line = line.rstrip("\r")[:2000]
        if hit := _POD.match(line):
            status, _, printed = hit["status"].removeprefix("Init:").partition(":")
            reason = "Error" if printed else status
            exit_code = int(printed) if printed else None
            found.append((reason, exit_code, hit["pod"], start, line.strip()[:300]))
        elif hit := _NAME.match(line):
            pod, limit = hit[1], None
        elif hit := _LIMIT.match(line):
            limit = int(size_bytes(hit[1], units=KUBERNETES_UNITS, whole=True) or 0)
            # Limits stand below the state that they explain.
            yield from _flush(found, limit)
            found = []
        elif hit := _REASON.match(line) or _STATUS.match(line):
            pending, code = (hit[1], start, line.strip()), None
        elif pending and (hit := _MESSAGE.match(line)):
            pending = (pending[0], pending[1], f"{pending[2]}, {line.strip()[:300]}")
        elif hit := _KERNEL.search(line):
            found.append(("OOMKilled", None, None, start, line.strip()[:300]))
        elif hit := _YARN.search(line):
            found.append(("OOMKilled", None, hit[1], start, line[hit.start() :].strip()[:300]))
        elif pending and (hit := _EXIT.match(line)):
            code = int(hit[1])
            found.append((pending[0], code, pod, pending[1], f"{pending[2]}, {line.strip()}"))
            pending = None
        elif hit := _EVENT.search(line):
            found.append((hit[1], None, hit[2] or pod, start, line.strip()[:300]))
        elif reason := _waiting(line):
            found.append((reason, None, _named(line) or pod, start, line.strip()[:300]))
        elif hit := _GOES_ON.search(line):
            over, whose = _OVER[hit[1]], _named(line) or pod
            found = [one for one in found if one[0] not in over or one[2] != whose]
    if pending:
        found.append((pending[0], code, pod, pending[1], pending[2]))
    yield from _flush(found, limit)


def _waiting(line: str) -> str | None:
    """Why a container is not started, by Kubernetes' word for it."""
    if hit := _WAITS.search(line):
        return hit[1]
    if _NO_IMAGE.search(line):
        return "ErrImagePull"
    return "CrashLoopBackOff" if _CRASHES.search(line) else None


def _named(line: str) -> str | None:
    found = _OF_POD.search(line)
    return None if found is None else found[1]


def _printed_pods(text: str) -> Iterator[Ended]:
    """The ended containers of pods as YAML or JSON: what a container ended with stands by the reason."""
    pod: str | None = None
    exit_code: int | None = None
    named, offset = True, 0
    for line in text[:MAX_TEXT].split("\n"):
        start, offset = offset, offset + len(line.encode("utf-8", "replace")) + 1
        line = line.rstrip("\r")[:2000]
        if _METADATA.match(line):
            named = False
        elif not named and (hit := _PRINTED_NAME.match(line)):
            pod, named = hit[1], True
        elif hit := _PRINTED_EXIT.match(line):
            exit_code = int(hit[1])
        elif hit := _PRINTED_REASON.match(line):
            yield Ended(
                reason=hit[1],
                exit_code=exit_code,
                pod=pod,
                memory_limit=None,
                offset=start,
                text=line.strip(" ,\t"),
            )


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
    """The collections that a log of the garbage collector tells of: `-Xlog:gc`, and what Java 8 prints."""
    for pause, line in _stops(text):
        uptime_s, time_us = _moment(line)
        yield replace(pause, uptime_s=uptime_s, time_us=time_us)


def _moment(line: str) -> tuple[float | None, int | None]:
    """When a line was written: seconds since the JVM began, and its clock in microseconds."""
    found = _DECORATED.match(line)
    date, *seconds = found.groups() if found else (None, None, None)
    uptime = next((float(each.replace(",", ".")) for each in seconds if each), None)
    if date is None:
        return uptime, None
    try:
        moment = datetime.strptime(date.replace(",", "."), "%Y-%m-%dT%H:%M:%S.%f%z")
        return uptime, round(moment.timestamp() * 1_000_000)
    except (ValueError, OverflowError):
        return uptime, None


def _stops(text: str) -> Iterator[tuple[Pause, str]]:
    """Each stop, and the line that its time stands in."""
    offset = 0
    open_g1: tuple[bool, float, int, str] | None = None
    stalled = 0.0  # ms: all that wait for the same cycle wait at once
    for line in text[:MAX_TEXT].split("\n"):
        start, offset = offset, offset + len(line.encode("utf-8", "replace")) + 1
        line = line[:1000]
        if hit := _STALL.search(line):
            stalled = max(stalled, float(hit[1].replace(",", ".")))
        if "->" not in line and " secs]" not in line:
            continue
        if hit := _PAUSE.search(line):
            before, after, heap = (int(hit[i]) * 1024**2 for i in (2, 3, 4))
            pause = Pause(
                full=hit[1] in ("Full", "Degenerated GC"),
                before=before,
                after=after,
                heap=heap,
                ms=float(hit[5].replace(",", ".")),
                offset=start,
            )
            yield pause, line
        elif hit := _CYCLE.search(line):
            share = max(1, int(hit[2]))
            pause = Pause(
                full=stalled > 0,
                before=int(hit[1]) * 1024**2,
                after=int(hit[3]) * 1024**2,
                heap=int(hit[1]) * 1024**2 * 100 // share,
                ms=stalled,
                offset=start,
            )
            yield pause, line
            stalled = 0.0
        elif hit := _OLD.search(line):
            pause = Pause(
                full=hit[1] == "Full GC",
                before=int(hit[2]) * _SIZES[hit[3]],
                after=int(hit[4]) * _SIZES[hit[5]],
                heap=int(hit[6]) * _SIZES[hit[7]],
                ms=float(hit[8].replace(",", ".")) * 1000,
                offset=start,
            )
            yield pause, line
        elif hit := _OLD_G1.search(line):
            open_g1 = (hit[1] == "Full GC", float(hit[2].replace(",", ".")) * 1000, start, line)
        elif open_g1 is not None and (hit := _OLD_HEAP.search(line)):
            sizes = [float(hit[i].replace(",", ".")) * _SIZES[hit[i + 1]] for i in (1, 3, 5)]
            pause = Pause(
                full=open_g1[0],
                before=int(sizes[0]),
                after=int(sizes[1]),
                heap=int(sizes[2]),
                ms=open_g1[1],
                offset=open_g1[2],
            )
            yield pause, open_g1[3]
            open_g1 = None
