"""Classifies failures by the wording of a reason or an exception (`formats/flink-failures.toml`).

Texts come from stack traces, log messages and REST responses. They may be truncated, or end with the text of their
causes. No function here raises. Unknown texts give None.
"""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

from flowdiag.parsers.formats import read_format

# Enough for the wording of a failure. Stack traces are long, and words in stack frames do not count.
_CHARACTERS: Final = 16_384


class Peer(NamedTuple):
    """A lost TaskManager, as printed in an exception. Fields that it does not contain are None."""

    taskmanager: str | None = None
    host: str | None = None


class _Failure(NamedTuple):
    kind: str
    consequence: bool
    texts: tuple[str, ...]  # lower case
    names: frozenset[str]


@functools.cache
def _failures(table: str) -> tuple[_Failure, ...]:
    return tuple(
        _Failure(
            entry["kind"],
            entry.get("consequence", False),
            tuple(text.lower() for text in entry["texts"]),
            frozenset(entry.get("names", ())),
        )
        for entry in read_format("formats/flink-failures.toml")[table]
    )


def _find(table: str, text: str) -> _Failure | None:
    text = text[:_CHARACTERS].strip()
    lower = text.lower()
    for failure in _failures(table):
        if text in failure.names or any(part in lower for part in failure.texts):
            return failure
    return None


def reason_kind(text: str) -> str | None:
    """Classify why a checkpoint did not complete.

    Returns:
        expired, declined, async, finalize, trigger_io, or one of the consequences: suspended,
        shutdown, subsumed, superseded, cancelled, finished, not_running, postponed, task_failure.
        The result is None for a text that no known Flink version prints.

    >>> reason_kind("Checkpoint expired before completing.")
    'expired'
    >>> reason_kind("Checkpoint was declined (task is closing)")
    'finished'
    >>> reason_kind("CHECKPOINT_COORDINATOR_SUSPEND")
    'suspended'
    """
    found = _find("reason", text)
    return found.kind if found else None


# Exception classes, recognized by Java's naming convention.
_EXCEPTION = re.compile(r"\b\w{1,200}(?:Exception|Error|Throwable|Failure)\b")
_EMBEDDED = "the latest checkpoint failed due to "


def failure_kind(text: str) -> str | None:
    """Classify the failure of a task, job, checkpoint or process by its exception text.

    Returns:
        network-buffers, out-of-memory, no-resource, task-stuck, taskmanager-lost, transaction,
        storage, expired, declined, snapshot, user-code, or one of the consequences:
        jobmanager-lost, cancelled, checkpoint-failures. The result is None if the text contains no exception.

    >>> failure_kind("java.io.IOException: Insufficient number of network buffers: required 5")
    'network-buffers'
    >>> failure_kind("java.lang.IllegalStateException: price is negative")
    'user-code'
    """
    found = _find("failure", text)
    if found is not None:
        return found.kind
    return "user-code" if _EXCEPTION.search(text[:_CHARACTERS]) else None


def is_consequence(text: str) -> bool:
    """Return whether a reason or an exception is only the consequence of another failure.

    >>> is_consequence("Checkpoint Coordinator is suspending.")
    True
    >>> is_consequence("java.util.concurrent.CancellationException")
    True
    >>> is_consequence("Checkpoint expired before completing.")
    False
    """
    if _EMBEDDED in text.lower():
        return False
    found = _find("reason", text) or _find("failure", text)
    return found is not None and found.consequence


_ADDRESS = r"(?P<host>[^\s/':\[\]()]{0,255})(?:/(?P<ip>[^\s'\[\]()]{1,64}))?(?::[0-9]{1,5})?"
_ID = r"(?P<id>[^\s\[\]()',]{1,400})(?:\([^()\n]{0,200}\))?"
_RPC = r"(?:akka|pekko)(?:\.ssl)?\.tcp://[\w-]{1,60}@(?P<host>[^\s:/\]]{1,255}):[0-9]{1,5}"
_CONNECTION = (
    r"(?:Lost connection to|Connection unexpectedly closed by remote|Connecting to remote)"
)
# First the messages about a lost process, then those that only show a broken connection.
_PEERS: Final = tuple(
    re.compile(pattern)
    for pattern in (
        rf"TaskManager with id {_ID} is no longer reachable",
        rf"eartbeat of TaskManager with id {_ID} {{1,3}}timed out",
        rf"{_CONNECTION} task manager (?:\+ )?'{_ADDRESS} ?(?:\[ ?{_ID} ?\] ?)?'",
        rf"Sending the (?:partition request|task event) to '{_ADDRESS} ?(?:\[ ?{_ID} ?\])?",
        rf"no longer running on task executor {_ID}",
        rf"No TaskExecutor registered under {_ID}",
        rf"registered TaskManager {_ID} re-registered",
        rf"TaskExecutor {_ID} re-connected to the ResourceManager",
        rf"recipient \[Actor\[{_RPC}/user/(?:rpc/)?taskmanager",
        rf"(?:Error|Fatal error) at remote task manager '{_ADDRESS} ?(?:\[ ?{_ID} ?\] ?)?'",
        rf"\(connection to '{_ADDRESS} ?(?:\[ ?{_ID} ?\] ?)?'\)",
    )
)


def lost_peer(text: str) -> Peer:
    """Extract the lost TaskManager from an exception. It is usually not the TaskManager of the failed task.

    >>> lost_peer("Lost connection to task manager 'worker-2/10.0.0.7:35511 [ tm-2 ] '. This indi")
    Peer(taskmanager='tm-2', host='worker-2')
    >>> lost_peer("TaskManager with id container_1_000002(worker-2:8041) is no longer reachable.")
    Peer(taskmanager='container_1_000002', host=None)
    >>> lost_peer("java.lang.RuntimeException: boom")
    Peer(taskmanager=None, host=None)
    """
    text = text[:_CHARACTERS]
    for pattern in _PEERS:
        found = pattern.search(text)
        if found is None:
            continue
        groups = found.groupdict()
        address = groups.get("ip") or ""
        # Without a resolvable host name, the address is printed as `/10.0.0.7:35511`.
        host = groups.get("host") or address.rpartition(":")[0] or address or None
        identity = (groups.get("id") or "").rstrip(".") or None
        if host is not None or identity is not None:
            return Peer(identity, host)
    return Peer()
