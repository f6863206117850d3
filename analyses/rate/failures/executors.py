"""Lost executors, and the blocks that were lost with them."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.failures.troubles import Trouble
from flowdiag.parsers.codes import codes_in

_BENIGN: Final = re.compile(
    r"idle|killed by driver|decommission|kill request|removed by request|application finished"
    r"|sparkcontext|shutdown|shutting down|command exited with code 0|exited with exit code 0\(",
    re.IGNORECASE,
)


# Exit codes above 128 are 128 plus the signal, and SIGKILL is 9.
_KILLED: Final = re.compile(
    r"\b(?:exit(?:ed)? ?(?:with)? ?(?:code|status)|code|status)\D{0,3}137\b", re.IGNORECASE
)


_OF_PODS: Final = re.compile(r"(?i)\bpods?\b|evict|kubelet|-exec-\d|\bThe API gave|OOMKilled")
_EVICTED: Final = re.compile(r"(?i)evict|ephemeral|low on resource")


def loss_remedies(app: h.ApplicationFacts, reason: str) -> tuple[str, ...]:
    """Return the names of the remedies for a lost executor. Advice about pods is only for Kubernetes."""
    evicted = ("evicted",) if _EVICTED.search(reason) else ()
    in_pods = _OF_PODS.search(reason) or app.settings.get("spark.master", "").startswith("k8s")
    return ("reason", *evicted, *(("pod",) if in_pods else ()))


def was_removed(app: h.ApplicationFacts, executor: h.Executor, at_end_ms: float) -> bool:
    """Return whether Spark removed the executor before the application began to stop."""
    removed, stopped = executor.removed_us, app.stopped_us
    if removed is None or (stopped is not None and removed >= stopped):
        return False
    if app.ended_us is None or (weight(executor) and removed < app.ended_us):
        return True  # a stop does not kill executors before it begins: a kill may have ended the application
    return removed <= app.ended_us - at_end_ms * 1000


def place_and_reason(
    app: h.ApplicationFacts, removed: list[h.Executor], names: set[str]
) -> tuple[h.Subject, str]:
    """Return the executor, receiver or application that lost the blocks, and the reason."""
    if removed:
        reason = h.fmt.shorten(removed[-1].reason or "", 80)
        return (
            h.executor_subject(app, removed[-1]),
            f"after executor {removed[-1].executor} was removed ({reason})",
        )
    how = "although no executor was lost: the executor evicted them for lack of memory"
    if not app.executors:
        how = "and the input does not show whether an executor was lost"
    streams = {name.split("-")[1] for name in names if name.count("-") >= 2}
    if len(streams) == 1:
        return h.receiver_subject(app, int(streams.pop())), how
    return h.application_subject(app), how


def loss_confidence(app: h.ApplicationFacts, last: h.Executor) -> h.Confidence:
    """Return low confidence if the log ends with the loss: a stop removes an application's executors too."""
    at_end = app.ended_us is None and (app.last_us or 0) - (last.removed_us or 0) < 1_000_000
    return h.Confidence.LOW if at_end and not weight(last) else h.Confidence.HIGH


def block_names(blocks: list[Trouble]) -> str:
    names = sorted({block.what for block in blocks if block.what})
    if not names:
        return "blocks of receivers"
    return f"block {names[0]}" + (f" and {len(names) - 1} more blocks" if len(names) > 1 else "")


def is_loss(executor: h.Executor) -> bool:
    """Return whether an executor was lost. Removal on request or because of idleness is no loss."""
    return executor.reason is not None and not _BENIGN.search(executor.reason)


def is_of_memory(reason: str) -> bool:
    """Return whether the reason of a loss is memory."""
    return "memory" in reason.lower() or "oomkilled" in reason.lower() or is_of_heap(reason)


def is_of_heap(reason: str) -> bool:
    """Return whether an OutOfMemoryError ended the executor, which then exits with its own code."""
    codes = {code.code for code in codes_in(reason)}
    return "OutOfMemoryError" in reason or "exit code 52" in codes


def meaning_of_exit(reason: str) -> str:
    """Return a sentence about the exit code in a reason, or an empty string."""
    known = [code for code in codes_in(reason) if code.family == "exit"]
    return f"{h.fmt.capital(known[0].code)}: {known[0].meaning}." if known else ""


_AT_ONCE_US: Final = 60_000_000
"""Losses within this time have one reason. Losses further apart may recur."""


def has_recovered(app: h.ApplicationFacts, lost: h.Sequence[h.Executor], worked: float) -> bool:
    """Return whether other executors replaced those lost at the same time, and the application has worked since.

    Args:
        app: the application.
        lost: the lost executors.
        worked: number of batches or triggers after the loss that prove a recovery.
    """
    times = [executor.removed_us or 0 for executor in lost]
    first, last = min(times), max(times)
    added = sum((executor.added_us or 0) > first for executor in app.executors)
    if last - first > _AT_ONCE_US or added < len(lost):
        return False
    later = [b for b in app.batches if b.start_ms is not None and b.start_ms * 1000 > last]
    if any(batch.failed_outputs for batch in later):
        return False
    done = sum(batch.end_ms is not None for batch in later)
    triggers = sum(trigger.time_us > last for q in app.queries for trigger in q.triggers)
    return max(done, triggers) >= worked


def weight(executor: h.Executor) -> int:
    """Return how much the reason of a loss explains. A kill explains more than any other exit does."""
    reason = (executor.reason or "").partition("\n")[0]
    return 2 if is_of_memory(reason) else 1 if was_killed(reason) else 0


def best_explained_loss(lost: h.Sequence[h.Executor]) -> h.Executor:
    """Return the loss whose reason explains the most. If several losses qualify, return the last."""
    return max(lost, key=lambda one: (weight(one), one.removed_us or 0))


def share_of(one: h.Executor, lost: h.Sequence[h.Executor]) -> str:
    """Return a clause on how many executors were lost for this kind of reason, or an empty string if all were."""
    alike = sum(weight(each) == weight(one) for each in lost)
    return f" ({alike} of them for this reason)" if alike < len(lost) else ""


def was_killed(reason: str) -> bool:
    """Return whether SIGKILL ended an executor."""
    return bool(_KILLED.search(reason))
