"""The code in which the threads of slow batches spend their time."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.knowledge import causes
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.stacks import (
    CODE_CAUSES,
    DEFAULT_AGREEMENT,
    WAITING,
    Agreement,
    CodeReading,
    Stack,
    names_in_advice,
    read_samples,
)

CAUSES: Final = {
    **{kind: cause for kind, cause in CODE_CAUSES.items() if kind != "async-queue"},
    "state": "slow-state-access",
    "python": "slow-python-code",
    "python-driver": "driver-gaps",
}


ON_DRIVER: Final = 0.5
"""Minimum share of the driver thread's samples outside of Spark jobs. Below it, tasks take most of the time."""


def is_slow(flow: h.Flow, *, use: float, hanging: float) -> bool:
    """Return whether a flow is at its limit, or its last batch or trigger hangs."""
    return h.has_no_pause(flow, use=use) or is_hanging(flow, hanging)


def is_hanging(flow: h.Flow, hanging: float) -> bool:
    """Return whether the last batch or trigger has been running for `hanging` ms."""
    if flow.query is not None:
        last = flow.query.unfinished
        return last is not None and last.duration_ms >= hanging
    begun = [
        b.start_ms for b in flow.assessed.app.batches if b.state == "processing" and b.start_ms
    ]
    return any((flow.assessed.app.last_us or 0) // 1000 - ms >= hanging for ms in begun)


def read_code(
    flow: h.Flow,
    agreement: Agreement = DEFAULT_AGREEMENT,
    *,
    driver: float = ON_DRIVER,
    alone: bool,
) -> CodeReading | None:
    """Return the activity of the threads of a flow: its driver thread, or the threads of its tasks.

    Args:
        flow: the batches or triggers.
        agreement: how many samples must agree.
        driver: minimum share of the driver thread's samples outside of Spark jobs.
        alone: whether no other query is slow, to which the tasks might belong.
    """
    threads, own = flow.assessed.app.threads, _own_stacks(flow)
    outside = [stack for stack in own if stack.kind not in WAITING]
    if outside and len(outside) >= driver * len(own):
        code, python = read_samples(own, CAUSES, agreement), _stacks(threads, "python-driver")
    elif alone:
        code = read_samples(_stacks(threads, "task"), CAUSES, agreement)
        python = _stacks(threads, "python-task")
    else:
        return None
    # For Python code, `py-spy` shows more than the JVM.
    if code is None or code.stack.kind.startswith("python"):
        code = read_samples(python, CAUSES, agreement) or code
    return code if code is not None and _is_known(code) else None


def line_of(flow: h.Flow, cause: str) -> CodeReading | None:
    """Return the line of user code that shows a cause in the threads of a flow, or None if unknown."""
    code = read_code(flow, alone=len([*h.flows_of(flow.assessed)]) == 1)
    return code if code is not None and code.cause == cause and code.stack.frame else None


def with_line(why: str, code: CodeReading | None) -> str:
    """Append the line of user code, if known, to the description of a culprit."""
    return why if code is None else f"{why}. It {code.clause}, {code.evidence_text}"


def remedies_for_line(flow: h.Flow, cause: str, code: CodeReading | None) -> tuple[h.Action, ...]:
    """Return the remedies of a cause. If the line of code is known, they name it and do not request a dump."""
    names = [
        name for name in causes.CAUSES[cause].remedies or {} if code is None or name != "dumps"
    ]
    fill = {"code": "the function"} if code is None else names_in_advice(code, "the function")
    return h.remedies(cause, flow.assessed.app, *names, **fill)


def _own_stacks(flow: h.Flow) -> list[Stack]:
    """Return the stacks of the thread that runs the batches of a flow on the driver."""
    threads, query = flow.assessed.app.threads, flow.query
    if query is None:
        return _stacks(threads, "batch")
    runs = (None, *query.runs)
    return [thread.stack for thread in threads if thread.role == "query" and thread.run in runs]


def _stacks(threads: h.Sequence[h.SparkThread], role: str) -> list[Stack]:
    return [thread.stack for thread in threads if thread.role == role]


def _is_known(code: CodeReading) -> bool:
    """Return whether user code, Python or a client library is running. Spark itself also reads files and waits."""
    stack = code.stack
    return stack.kind.startswith("python") or bool(stack.frame or stack.component)
