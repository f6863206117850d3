"""Reads inputs other than Flink logs that show why a process ended or ran short of memory.

These are the output of `kubectl describe pod`, `get pods`, `get pod -o yaml|json` and `get events`, out-of-memory
kills reported by the kernel (`dmesg`) or YARN's NodeManager, and the JVM's garbage collection log (`-Xlog:gc`). They
are small and read as a whole. Hostile text costs one pass over its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from flowdiag.parsers.kubernetes.objects import (
    EndedContainer,
    ended_in_objects,
    looks_like_objects,
    operator_reason,
)
from flowdiag.parsers.kubernetes.throttling import looks_like_throttling, throttled_pods
from flowdiag.parsers.neighbours.kernel_log import kernel_kill, kernel_kills, reports_kernel_kill
from flowdiag.parsers.units import KUBERNETES_UNITS, size_bytes
from flowdiag.parsers.yarn.answers import ended_on_yarn, looks_like_yarn

MAX_TEXT: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause of the JVM. Sizes are in bytes, rounded to megabytes if the log prints megabytes.

    `full` means that no thread gets memory until the pause ends: a full or degenerated collection, or a concurrent
    cycle for which threads stall. For such a cycle, `ms` is the longest stall. `uptime_s` (since the JVM started) and
    `time_us` (on the JVM's clock) are the end of the pause, or None if the log does not print them.
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
_LABEL: Final = re.compile(r"^(?:Labels:)? {2,40}component=(jobmanager|taskmanager)$")
_LIMIT: Final = re.compile(r"^ {2,16}memory: {1,20}([0-9]{1,15}(?:Ki|Mi|Gi|Ti|k|M|G|T)?)$")
_REASON: Final = re.compile(r"^ {2,16}Reason: {1,20}(OOMKilled|Error|Evicted|ContainerCannotRun)\b")
_STATUS: Final = re.compile(r"^(?:Status|Reason): {1,20}(Evicted|Failed)\b")
_EXIT: Final = re.compile(r"^ {2,16}Exit Code: {1,20}([0-9]{1,3})$")
_EVENT: Final = re.compile(
    r"\b(OOMKilling|OOMKilled|Evicted|FailedScheduling|SystemOOM|FailedMount|FailedAttachVolume)\b(?:[^\n]{0,200}?\bpod/(\S{1,253}))?"
)
# `[2026-11-22T18:49:19.123+0000][12.345s][info][gc]`, with either or both times; up to Java 8 `DATE: 12.345: [GC`.
_DECORATED: Final = re.compile(
    r"(?:\[?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3}[+-]\d{4})(?:\]|: ?))?"
    r"(?:\[([0-9]{1,12}[.,][0-9]{3})s\]|([0-9]{1,12}[.,][0-9]{3}): )?"
)
_PAUSE: Final = re.compile(
    r"Pause (Full|Degenerated GC|Young|Initial Mark|Mixed)\b.{0,120}? ([0-9]{1,9})M->([0-9]{1,9})M"
    r"\(([0-9]{1,9})M\) ([0-9]{1,9}[.,][0-9]{1,6})ms"
)
# Up to Java 8 (-XX:+PrintGCDetails), the last sizes on the line are those of the whole heap. G1 prints them on a
# separate line, after the line with the time.
_OLD: Final = re.compile(
    r"\[(Full GC|GC)(?![a-z])[^\n]{0,600}\]? ([0-9]{1,12})([KM])->([0-9]{1,12})([KM])\(([0-9]{1,12})([KM])\)"
    r"(?:, \[[^\]\n]{0,200}\])?, ([0-9]{1,9}[.,][0-9]{1,9}) secs\]"
)
_OLD_G1: Final = re.compile(
    r"\[(Full GC|GC pause)\b[^\n]{0,200}?, ([0-9]{1,9}[.,][0-9]{1,9}) secs\]"
)
_OLD_HEAP: Final = re.compile(
    r"Heap: ([0-9]{1,9}(?:[.,][0-9]{1,3})?)([BKMG])\([^)\n]{1,30}\)->"
    r"([0-9]{1,9}(?:[.,][0-9]{1,3})?)([BKMG])\(([0-9]{1,9}(?:[.,][0-9]{1,3})?)([BKMG])\)"
)
# Concurrent collectors print the sizes for a whole cycle.
_CYCLE: Final = re.compile(
    r"\bGC\([0-9]{1,9}\) (?:[YO]: )?(?:Garbage Collection|Major Collection|Minor Collection)\b[^\n]{0,120}? "
    r"([0-9]{1,9})M\(([0-9]{1,3})%\)->([0-9]{1,9})M\([0-9]{1,3}%\)"
)
# Shenandoah frees memory while the threads run. Its pauses have no sizes unless it falls behind.
_CLEANUP: Final = re.compile(
    r"\bGC\([0-9]{1,9}\) Concurrent cleanup\b[^\n]{0,40}? ([0-9]{1,9})M->([0-9]{1,9})M\(([0-9]{1,9})M\)"
)
# CMS stops all threads twice per cycle. These pauses free nothing.
_CMS_STOP: Final = re.compile(
    r"\[(?:1 CMS-(?:initial-mark|remark): [0-9K()]{1,30}\]|GC \(CMS (?:Initial Mark|Final Remark)\) )"
    r" ([0-9]{1,12})K\(([0-9]{1,12})K\), "
    r"([0-9]{1,9}[.,][0-9]{1,9}) secs\]"
)
# If memory runs out under a concurrent collector (ZGC), threads stall until the cycle ends.
_STALL: Final = re.compile(
    r"\bgc\b[^\n]{0,40}\] Allocation Stall \([^\n]{1,200}\) ([0-9]{1,9}[.,][0-9]{1,6})ms"
)
# A warning about a custom resource in `get events`; the columns depend on the version of kubectl.
_OPERATOR_EVENT: Final = re.compile(
    r"\bWarning +(?P<reason>[A-Z]\w{1,60}) +"
    r"(?:flink|spark)[a-z]{3,30}/(?P<name>\S{1,253}) +(?P<said>\S.*)"
)
# The header of a list of events or pods.
_LISTED: Final = re.compile(
    r"^(?:NAMESPACE +)?(?:LAST SEEN +(?:TYPE|REASON)|NAME +READY +STATUS +RESTARTS)\b", re.MULTILINE
)
_POD: Final = re.compile(
    r"^(?:[a-z0-9.-]{1,253} +)?(?P<pod>[a-z0-9][a-z0-9.-]{0,252}) +[0-9]{1,3}/[0-9]{1,3} +"
    r"(?P<status>(?:Init:)?(?:OOMKilled|Evicted|Error|ContainerCannotRun|ExitCode:[0-9]{1,3}"
    r"|ImagePullBackOff|ErrImagePull|InvalidImageName|CrashLoopBackOff))(?= )"
)
# Why a container does not start. The first word of an event is its reason, which is "Failed" for an image.
_WAITING: Final = re.compile(
    r"\b(ImagePullBackOff|ErrImagePull|InvalidImageName|CrashLoopBackOff)\b"
)
_NO_IMAGE: Final = re.compile(r"\bFailed to pull image\b")
_NO_CONFIGURATION: Final = re.compile(
    r"\bError: (?:secret|configmap) \"[^\"\n]{1,253}\" not found|\bcouldn't find key \S{1,253} in (?:Secret|ConfigMap)\b"
)
_CRASHES: Final = re.compile(r"\bBack-off restarting failed container\b")
_OF_POD: Final = re.compile(r"\bpod/(\S{1,253})")
# Problems that are resolved once the pod has its node or its image.
_RESOLVED_BY: Final = {
    "Scheduled": ("FailedScheduling",),
    "Pulled": ("ImagePullBackOff", "ErrImagePull"),
}
_PROGRESS: Final = re.compile(r"\bNormal {1,20}(Scheduled|Pulled)\b")
_SIZES: Final = {"B": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_DESCRIBED: Final = re.compile(r"^(?:Name|Namespace|Containers|Last State|Events):", re.MULTILINE)
# A row of `get events` whose header is missing.
_EVENT_ROW: Final = re.compile(
    r"^(?:\S{1,253} +)?\S{1,20} +(?:Warning|Normal) +[A-Z]\w{1,60} +(?:pod|(?:flink|spark)[a-z]{3,30})/\S",
    re.MULTILINE,
)
_METADATA: Final = re.compile(r"^[\s-]{0,40}\"?metadata\"?:")
_PRINTED_NAME: Final = re.compile(r"^[\s-]{0,40}\"?name\"?: \"?([a-z0-9][a-z0-9.-]{0,252})\"?,?$")
_PRINTED_REASON: Final = re.compile(
    r"^[\s-]{0,40}\"?reason\"?: \"?(OOMKilled|Evicted|ImagePullBackOff|ErrImagePull|InvalidImageName"
    r"|CrashLoopBackOff)\"?,?$"
)
_PRINTED_EXIT: Final = re.compile(r"^[\s-]{0,40}\"?exitCode\"?: ([0-9]{1,3}),?$")
# YARN's container monitor.
_YARN: Final = re.compile(
    r"containerID=(container_[0-9A-Za-z_]{10,80})\][^\n]{0,200}? beyond (?:the )?'?(?i:physical|virtual)'? memory limit"
)
_MESSAGE: Final = re.compile(r"^ {0,16}Message: {1,20}(\S.*)$")


def looks_like_kubectl(text: str) -> bool:
    """Return whether a text is the output of `kubectl describe pod`, `get pods` or `get events`.

    >>> looks_like_kubectl("Name:         a-1\\nNamespace:    b\\n")
    True
    >>> looks_like_kubectl("$ kubectl get pods\\nNAME   READY   STATUS   RESTARTS   AGE\\n")
    True
    """
    head = text[:65536]
    if len({hit[0] for hit in _DESCRIBED.finditer(head)}) >= 2:
        return True
    if any(pattern.search(head) is not None for pattern in (_LISTED, _EVENT_ROW)):
        return True
    return looks_like_objects(head)


def reports_ended_containers(text: str) -> bool:
    """Return whether a text is kubectl or YARN output about containers, or reports an out-of-memory kill."""
    formats = (looks_like_kubectl, looks_like_yarn, looks_like_throttling, reports_killed_process)
    return any(matches(text) for matches in formats)


def reports_killed_process(text: str) -> bool:
    """Return whether a text reports that the kernel or YARN killed a process for using too much memory.

    >>> reports_killed_process("[12.3] Memory cgroup out of memory: Killed process 47 (java) total-vm:9kB")
    True
    """
    return reports_kernel_kill(text[:MAX_TEXT]) or _YARN.search(text[:65536]) is not None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the byte offset and the text of each line."""
    offset = 0
    for line in text[:MAX_TEXT].split("\n"):
        yield offset, line
        offset += len(line.encode("utf-8", "replace")) + 1


def ended_containers(text: str) -> Iterator[EndedContainer]:
    """Yield the containers that ended or cannot start, in order of appearance."""
    if looks_like_yarn(text):
        yield from ended_on_yarn(text[:MAX_TEXT])
    elif looks_like_throttling(text):
        yield from throttled_pods(text[:MAX_TEXT])
    elif looks_like_objects(text):
        found = ended_in_objects(text[:MAX_TEXT])
        # If the document is damaged or truncated, its lines still show reasons.
        yield from _printed_pods(text) if found is None else found
    elif reports_kernel_kill(text[:MAX_TEXT]) and not looks_like_kubectl(text):
        yield from kernel_kills(_lines(text))
    else:
        yield from _pods_in_description(text)


def _pods_in_description(text: str) -> Iterator[EndedContainer]:
    pod = limit = component = None
    pending: EndedContainer | None = None  # the container's message and exit code may follow
    found: list[EndedContainer] = []
    for start, line in _lines(text):
        line = line.rstrip("\r")[:2000]
        if hit := _NAME.match(line):
            pod, limit, component = hit[1], None, None
        elif hit := _LABEL.match(line):
            component = hit[1]
        elif hit := _LIMIT.match(line):
            limit = int(size_bytes(hit[1], units=KUBERNETES_UNITS, whole=True) or 0)
            # The limits are listed below the state.
            yield from (replace(each, memory_limit=limit, component=component) for each in found)
            found = []
        elif hit := _REASON.match(line) or _STATUS.match(line):
            yield from _evicted_pod(pending, pod)
            pending = EndedContainer(reason=hit[1], offset=start, text=line.strip())
        elif pending and (more := _with_next_line(pending, line)) is not None:
            pending = more
            if more.exit_code is not None:
                found.append(replace(more, pod=pod))
                pending = None
        elif ended := _ended_in_line(line, start, pod):
            found.append(ended)
        else:
            found = _without_resolved(found, line, pod)
    if pending:
        found.append(replace(pending, pod=pod))
    yield from (replace(each, memory_limit=limit, component=component) for each in found)


def _with_next_line(pending: EndedContainer, line: str) -> EndedContainer | None:
    """Return the container with the message or exit code that the next line adds, or None if the line adds neither."""
    text = f"{pending.text}, {line.strip()[:300]}"
    if (hit := _EXIT.match(line)) is not None:
        return replace(pending, exit_code=int(hit[1]), text=text)
    return replace(pending, text=text) if _MESSAGE.match(line) else None


def _evicted_pod(pending: EndedContainer | None, pod: str | None) -> Iterator[EndedContainer]:
    """Yield the eviction of a pod, which is printed above the states of its containers."""
    if pending is not None and pending.reason == "Evicted":
        yield replace(pending, pod=pod)


def _ended_in_line(line: str, start: int, pod: str | None) -> EndedContainer | None:
    """Return the container that a single line reports as ended or waiting."""
    text = line.strip()[:300]
    if hit := _POD.match(line):
        status, _, code = hit["status"].removeprefix("Init:").partition(":")
        if code:
            return EndedContainer(
                "Error", exit_code=int(code), pod=hit["pod"], offset=start, text=text
            )
        return EndedContainer(status, pod=hit["pod"], offset=start, text=text)
    if hit := _OPERATOR_EVENT.search(line):
        known = operator_reason(hit["reason"])
        text = f"{hit['reason']}: {hit['said'].strip()[:300]}"
        return EndedContainer(known, pod=hit["name"], offset=start, text=text) if known else None
    if (killed := kernel_kill(line, start, None)) is not None:
        return killed
    if hit := _YARN.search(line):
        text = line[hit.start() :].strip()[:300]
        return EndedContainer("OOMKilled", pod=hit[1], offset=start, text=text)
    if hit := _EVENT.search(line):
        return EndedContainer(hit[1], pod=hit[2] or pod, offset=start, text=text)
    if hit := _WAITING.search(line):
        reason = hit[1]
    elif _NO_IMAGE.search(line):
        reason = "ErrImagePull"
    elif _NO_CONFIGURATION.search(line):
        reason = "CreateContainerConfigError"
    elif _CRASHES.search(line):
        reason = "CrashLoopBackOff"
    else:
        return None
    return EndedContainer(reason, pod=_pod_in(line) or pod, offset=start, text=text)


def _without_resolved(
    found: list[EndedContainer], line: str, pod: str | None
) -> list[EndedContainer]:
    """Remove the problems that a line reports as resolved: the pod was scheduled or its image was pulled."""
    hit = _PROGRESS.search(line)
    if hit is None:
        return found
    reasons, pod = _RESOLVED_BY[hit[1]], _pod_in(line) or pod
    return [each for each in found if each.reason not in reasons or each.pod != pod]


def _pod_in(line: str) -> str | None:
    found = _OF_POD.search(line)
    return None if found is None else found[1]


def _printed_pods(text: str) -> Iterator[EndedContainer]:
    """Yield the ended containers of pods printed as YAML or JSON, where the exit code is next to the reason."""
    pod: str | None = None
    exit_code: int | None = None
    named = True
    for start, line in _lines(text):
        line = line.rstrip("\r")[:2000]
        if _METADATA.match(line):
            named = False
        elif not named and (hit := _PRINTED_NAME.match(line)):
            pod, named = hit[1], True
        elif hit := _PRINTED_EXIT.match(line):
            exit_code = int(hit[1])
        elif hit := _PRINTED_REASON.match(line):
            shown = line.strip(" ,\t")
            yield EndedContainer(hit[1], exit_code=exit_code, pod=pod, offset=start, text=shown)


def pauses(text: str) -> Iterator[Pause]:
    """Yield the pauses in a garbage collection log, in the format of `-Xlog:gc` or of Java 8."""
    for pause, line in _pauses_with_lines(text):
        uptime_s, time_us = _time_of(line)
        yield replace(pause, uptime_s=uptime_s, time_us=time_us)


def _time_of(line: str) -> tuple[float | None, int | None]:
    """Return when a line was written: in seconds since the JVM started, and in microseconds on its clock."""
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


def _pauses_with_lines(text: str) -> Iterator[tuple[Pause, str]]:
    """Yield each pause, together with the line that contains its time."""
    open_g1: tuple[Pause, str] | None = None
    stalled = 0.0  # longest stall in ms: threads that wait for the same cycle wait at the same time
    for start, line in _lines(text):
        line = line[:1000]
        if hit := _STALL.search(line):
            stalled = max(stalled, _number(hit[1]))
        if "->" not in line and " secs]" not in line:
            continue
        if pause := _pause_in(line, start):
            yield pause, line
        elif hit := _CYCLE.search(line):
            before, share = int(hit[1]), max(1, int(hit[2]))
            heap = max(before * 100 / share, int(hit[3]))
            sizes = (f"{before}M", f"{hit[3]}M", f"{heap}M")
            yield _pause(stalled > 0, sizes, stalled, start), line
            stalled = 0.0
        elif hit := _OLD_G1.search(line):
            open_g1 = _pause(hit[1] == "Full GC", _NO_SIZES, _number(hit[2]) * 1000, start), line
        elif open_g1 is not None and (hit := _OLD_HEAP.search(line)):
            opened, timed = open_g1
            sizes = (hit[1] + hit[2], hit[3] + hit[4], hit[5] + hit[6])
            yield _pause(opened.full, sizes, opened.ms, opened.offset), timed
            open_g1 = None


Sizes = tuple[str, str, str]
"""The used heap before a pause, the used heap after it, and the total heap, as printed: `64M`, `0.0B`."""
_NO_SIZES: Final[Sizes] = ("0B", "0B", "0B")


def _pause_in(line: str, start: int) -> Pause | None:
    """Return the pause that a line describes with its duration and sizes, or None."""
    if hit := _PAUSE.search(line):
        full = hit[1] in ("Full", "Degenerated GC")
        return _pause(full, (f"{hit[2]}M", f"{hit[3]}M", f"{hit[4]}M"), _number(hit[5]), start)
    if hit := _CLEANUP.search(line):
        return _pause(False, (f"{hit[1]}M", f"{hit[2]}M", f"{hit[3]}M"), 0.0, start)
    if hit := _CMS_STOP.search(line):
        used, ms = f"{hit[1]}K", _number(hit[3]) * 1000
        return _pause(False, (used, used, f"{hit[2]}K"), ms, start)
    if hit := _OLD.search(line):
        sizes = (hit[2] + hit[3], hit[4] + hit[5], hit[6] + hit[7])
        # CMS collects the whole heap if it falls behind, in a line that begins like that of a young collection.
        full = hit[1] == "Full GC" or "[CMS (concurrent mode " in line
        return _pause(full, sizes, _number(hit[8]) * 1000, start)
    return None


def _pause(full: bool, sizes: Sizes, ms: float, offset: int) -> Pause:
    before, after, heap = (int(_number(size[:-1]) * _SIZES[size[-1]]) for size in sizes)
    return Pause(full=full, before=before, after=after, heap=heap, ms=ms, offset=offset)


def _number(text: str) -> float:
    """Parse a number with a decimal point or comma."""
    return float(text.replace(",", "."))
