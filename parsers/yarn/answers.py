"""Finds containers that ended or wait, in responses of YARN's REST APIs and in output of the `yarn` command.

The responses are those of the ResourceManager (`/ws/v1/cluster/…`) and of the timeline server
(`/ws/v1/applicationhistory/…`), single or in a list. The exit statuses are those of Hadoop's `ContainerExitStatus`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from flowdiag.parsers.json_values import as_integer, as_string, decode_json
from flowdiag.parsers.kubernetes.objects import MESSAGE_CHARACTERS, EndedContainer

_SIGN: Final = re.compile(
    r'"(?:containerExitStatus|amContainerLogs|unmanagedApplication|appAttemptState|finalAppStatus|appAttemptId|nodeHTTPAddress)"\s*:'
    r"|^[ \t]*(?:Application|Container|ApplicationAttempt)-Id : (?:application|container|appattempt)_\d"
    r"|^[ \t]*Diagnostics : .{0,200}(?:not yet activated|waiting for AM container)",
    re.MULTILINE,
)
_PRINTED: Final = re.compile(r"^[ \t]*([A-Z][A-Za-z -]{2,40}?) : (.*)$", re.MULTILINE)
_STATUSES: Final = {
    -104: "OOMKilled",
    -103: "OOMKilled",
    -102: "Preempted",
    -101: "DisksFailed",
    -1000: "LocalizationFailed",
    137: "Killed",
}
_ENDED: Final = re.compile(r"exited with +exitCode: (-?\d{1,5})|\bstatus \((-?\d{1,5})\)")
_MASTER: Final = re.compile(r"AM Container for appattempt_(\d{1,20}_\d{1,9})_(\d{1,9})\b")
_FAILED_TIMES: Final = re.compile(r"failed (\d{1,5}) times")
_LOST: Final = re.compile(r"\*?lost\*? node|node failures|decommissioned node", re.IGNORECASE)
_MEMORY: Final = re.compile(
    r"(?:running (?:[0-9.]{1,20} ?[KMGT]?B )?)?beyond (?:the )?'?(?:physical|virtual)'? memory limit",
    re.IGNORECASE,
)
_NOT_STARTED: Final = re.compile(
    r"waiting for AM container|not yet activated|AM resource limit exceeded|Not scheduled|is added to the scheduler"
    r"|Skipping (?:AM )?assign",
    re.IGNORECASE,
)
# The time and general words before the reason. The partition is rarely of interest.
_PREAMBLE: Final = re.compile(
    r"^\[[^\]]{0,60}\] |Application is added to the scheduler and is not (?:yet )?activated\. |Details : AM Partition = <[^>]{0,80}>; "
)
_TOKEN: Final = re.compile(
    r"\btoken\b[^\n]{0,300}?(?:can't be found in cache|is expired|has expired|InvalidToken)|Invalid(?:Token|AMRMToken)",
    re.IGNORECASE,
)
_BAD_NODES: Final = {
    "LOST": "NodeLost",
    "UNHEALTHY": "NodeUnhealthy",
    "DECOMMISSIONED": "NodeDecommissioned",
    "DECOMMISSIONING": "NodeDecommissioned",
}
_MIB: Final = 1024 * 1024


def looks_like_yarn(text: str) -> bool:
    """Return whether a text is a response of YARN's REST API, or output of `yarn application -status`.

    >>> looks_like_yarn('{"app": {"id": "application_1_1", "amContainerLogs": ""}}')
    True
    """
    return _SIGN.search(text[:65536]) is not None


def ended_on_yarn(text: str) -> Iterator[EndedContainer]:
    """Yield containers and attempts that YARN ended, and applications that do not start."""
    try:
        value = decode_json(text.encode("utf-8", "replace"))
    except ValueError:
        yield from _printed_containers(text)
        return
    for kind, item in _items(value):
        for found in _READERS[kind](item):
            sign = found.pod or found.reason
            at = max(text.find(f'"{sign}"'), 0)
            offset = len(text[:at].encode("utf-8", "replace"))
            yield replace(found, offset=offset)


def _items(value: object, depth: int = 6) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the applications, attempts, containers and nodes in a response."""
    if depth == 0:
        return
    if isinstance(value, list):
        for each in value:
            yield from _items(each, depth - 1)
    elif isinstance(value, Mapping):
        if "containerId" in value and "containerExitStatus" in value:
            yield "container", value
        elif "nodeHTTPAddress" in value and "state" in value:
            yield "node", value
        elif ("id" in value or "appId" in value) and (
            "finalStatus" in value or "finalAppStatus" in value
        ):
            yield "application", value
        else:
            for each in value.values():
                if isinstance(each, (list, Mapping)):
                    yield from _items(each, depth - 1)


def _container(found: Mapping[str, Any]) -> Iterator[EndedContainer]:
    status = as_integer(found.get("containerExitStatus"))
    if status is None or str(found.get("containerState")) not in ("COMPLETE", "None"):
        return
    if as_integer(found.get("finishedTime")) == 0:  # the timeline server prints -1000 until then
        return
    diagnostics = str(found.get("diagnosticsInfo") or "")
    reason = _reason_of(status, diagnostics)
    if reason is not None:
        yield EndedContainer(
            reason,
            offset=0,
            text=_exceeded_limit(diagnostics) or _text(diagnostics, f"exit code {status}"),
            exit_code=status,
            pod=as_string(found.get("containerId")),
            memory_limit=_megabytes(found.get("allocatedMB")) if reason == "OOMKilled" else None,
            time_us=_time(found.get("finishedTime")),
        )


def _reason_of(status: int | None, diagnostics: str) -> str | None:
    """Return why YARN ended a container, or None if its application or its own process ended it."""
    if _MEMORY.search(diagnostics):
        return "OOMKilled"
    if status == -100:
        return "NodeLost" if _LOST.search(diagnostics) else None
    return None if status is None else _STATUSES.get(status)


def _application(found: Mapping[str, Any]) -> Iterator[EndedContainer]:
    name = as_string(found.get("id")) or as_string(found.get("appId"))
    state = str(found.get("state") or found.get("appState"))
    diagnostics = str(found.get("diagnostics") or found.get("diagnosticsInfo") or "")
    finished = _time(found.get("finishedTime"))
    if state in ("ACCEPTED", "SUBMITTED", "NEW") and _NOT_STARTED.search(diagnostics):
        queue = as_string(found.get("queue"))
        text = _text(_PREAMBLE.sub("", diagnostics), "waiting")
        yield EndedContainer(
            "Unscheduled", offset=0, text=f"queue {queue}: {text}" if queue else text, pod=name
        )
    elif state == "FAILED":
        yield from _failed_attempts(diagnostics, name, finished)


def _failed_attempts(
    diagnostics: str, name: str | None, time_us: int | None
) -> Iterator[EndedContainer]:
    """Yield the reason why the last application master ended, or a note that no attempt is left."""
    master = _MASTER.search(diagnostics)
    ended = _ENDED.search(diagnostics)
    status = int(ended[1] or ended[2]) if ended is not None else None
    reason = _reason_of(status, diagnostics)
    if _TOKEN.search(diagnostics):
        reason = "TokenExpired"
    container = None if master is None else f"container_{master[1]}_{int(master[2]):02}_000001"
    times = _FAILED_TIMES.search(diagnostics)
    if reason is not None or times is not None:
        yield EndedContainer(
            reason or "AttemptsExhausted",
            offset=0,
            text=_exceeded_limit(diagnostics) or _text(diagnostics, "failed"),
            exit_code=status,
            pod=container if reason is not None and container is not None else name,
            time_us=time_us,
            count=int(times[1]) if times is not None else 1,
        )


def _node(found: Mapping[str, Any]) -> Iterator[EndedContainer]:
    reason = _BAD_NODES.get(str(found.get("state")))
    if reason is not None:
        name = as_string(found.get("nodeHostName")) or as_string(found.get("id"))
        yield EndedContainer(
            reason,
            offset=0,
            text=_text(str(found.get("healthReport") or ""), str(found.get("state"))),
            pod=name,
            time_us=_time(found.get("lastHealthUpdate")),
        )


_READERS: Final = {"container": _container, "application": _application, "node": _node}


def _printed_containers(text: str) -> Iterator[EndedContainer]:
    """Read the output of `yarn application -status`, `yarn applicationattempt` and `yarn container`."""
    hits = list(_PRINTED.finditer(text))
    values: dict[str, str] = {}
    place = 0
    for hit, end in zip(hits, [*(hit.start() for hit in hits[1:]), len(text)], strict=False):
        value = hit[2] + text[hit.end() : end]
        values.setdefault(hit[1], value.strip())
        if hit[1] == "Diagnostics":
            place = len(text[: hit.start()].encode("utf-8", "replace"))
    application = {
        "id": values.get("Application-Id", "the application"),
        "state": values.get("State", "ACCEPTED"),
        "queue": values.get("Queue"),
        "diagnostics": values.get("Diagnostics"),
        "finishedTime": values.get("Finish-Time"),
    }
    for each in _application(application):
        yield replace(each, offset=place)


def _text(diagnostics: str, otherwise: str) -> str:
    return " ".join(diagnostics.split())[:MESSAGE_CHARACTERS] or otherwise


def _exceeded_limit(diagnostics: str) -> str | None:
    """Return the text about an exceeded limit, without the process tree and its command lines."""
    found = _MEMORY.search(diagnostics)
    return None if found is None else found[0]


def _megabytes(value: object) -> int | None:
    size = as_integer(value)
    return size * _MIB if size is not None and size > 0 else None


def _time(milliseconds: object) -> int | None:
    at = as_integer(milliseconds)
    return at * 1000 if at is not None and 10**11 < at < 10**14 else None
