"""Output operations of batches fail.

What it reports
---------------
Batches of which an output operation failed: how many, which operation, with what error, and whether
the last ones failed too.

Why it matters
--------------
The records of such a batch are not written, and unless the job reads them again they are lost. A
failed batch is short, and the rate estimator takes it for a fast one: it raises the rate.

How it decides
--------------
From the listener, REST or the log: output operations with a failure reason. An event log alone
shows failed Spark jobs; an output operation may fail without one. Failures that come from stopping
the application do not count. Critical when more than `failed-share` of the batches failed, or the
last three.

What to do
----------
Read the deepest cause below. Make the function skip or set aside records it cannot handle; retry
what is transient inside it.

False alarms
------------
Functions that fail on purpose, for example to have a batch tried again elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
    grade,
    spread,
)
from flowdiag.analyses.flink.judging import shorten
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate import state as rate_state
from flowdiag.analyses.rate.causes import trouble_in
from flowdiag.analyses.rate.facts import Batch, Output
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit


class FailingBatchesLimits(Limits):
    """What RT103 compares with."""

    failed_share: float = limit(
        rate_state.FAILED_SHARE, "share", "one in twenty batches lost is data loss, not an incident"
    )


def judge(assessed: Assessed, limits: FailingBatchesLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per application with failed batches."""
    for _ in assessed.dstreams:
        failed = rate_state.failed_batches(assessed.app)
        if failed:
            yield _finding(assessed, failed, limits.failed_share)


def error_of(text: str | None) -> str:
    """The line of a failure that says what went wrong: of a Python traceback the last one.

    >>> error_of("o.a.s.SparkException: Job aborted\\nTraceback (most recent call last):\\n  File x"
    ...          "\\nValueError: no number")
    'ValueError: no number'
    """
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if line.split(":")[0].split(".")[-1].endswith(("Error", "Exception"))
        and not line.startswith("at ")
    ]
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        return causes[-1].removeprefix("Caused by:").strip()
    return errors[-1] if errors else (lines[0] if lines else "an unknown error")


def rank_of(reasons: Iterable[str | None]) -> Rank:
    """A failure by itself is the root; what Kafka or a lost executor brought about is a symptom."""
    told = list(reasons)
    from_outside = sum(trouble_in(reason) is not None for reason in told)
    return Rank.SYMPTOM if told and from_outside > len(told) / 2 else Rank.ROOT_CAUSE


def _finding(assessed: Assessed, failed: tuple[Batch, ...], limit: float) -> Finding:
    app = assessed.app
    done = app.completed
    numbers = {b.time_ms for b in failed}
    outputs = [one for one in app.outputs if one.batch_ms in numbers]
    share = len(failed) / len(done)
    last = all(b.time_ms in numbers for b in done[-3:])
    recent = done[-max(10, len(done) // 3) :]
    state = State.ONGOING if any(b.time_ms in numbers for b in recent) else State.RECOVERED
    fatal = state is State.ONGOING and len(failed) > 1 and (share >= limit or last)
    texts = Counter(error_of(one.failure) for one in outputs) or Counter(
        error_of(b.reason) for b in failed
    )
    error = shorten(texts.most_common(1)[0][0], 200)
    which = Counter(one.output for one in outputs).most_common(1)
    name = next((one.name for one in outputs if which and one.output == which[0][0]), None)
    return Finding(
        job=assessed.key,
        severity=Severity.CRITICAL if fatal else grade(state=state, share=share),
        state=state,
        subject=_subject(assessed, which[0][0] if which else None, name),
        title=f"{len(failed)} of {len(done)} batches failed: {error}",
        explain=(
            "The records of these batches were not written. "
            + (
                "A failed batch ends early, so that the rate estimator takes the job for faster "
                "than it is."
                if assessed.estimators
                else ""
            )
        ).strip(),
        why=f"fails in {len(failed)} of {len(done)} batches: {error}",
        cause="failing-batches",
        rank=rank_of(one.failure for one in outputs)
        if outputs
        else rank_of(b.reason for b in failed),
        first_us=failed[0].time_ms * 1000,
        last_us=failed[-1].time_ms * 1000,
        count=len(failed),
        measurements=(
            Measurement(
                name="failed-batches",
                value=len(failed),
                unit="batches",
                population=f"{len(done)} completed",
            ),
            Measurement(name="failed-share", value=round(share, 4), unit="share", threshold=limit),
        ),
        evidence=_evidence(outputs, failed),
        evidence_total=len(outputs) or len(failed),
        actions=(
            Action(
                text="Catch what the function cannot handle, record by record, and set it aside",
                verify="no output operation with a failure reason",
            ),
        ),
    )


def _evidence(outputs: list[Output], failed: tuple[Batch, ...]) -> tuple[Evidence, ...]:
    cited = cite((one.ref, one.batch_ms * 1000) for one in outputs)
    return spread(cited) if cited else j.of_batches(failed)


def _subject(assessed: Assessed, output: int | None, name: str | None) -> Subject:
    app = assessed.app
    if output is None:
        return j.application_subject(app)
    return Subject(
        kind="output",
        job_name=app.name,
        application=app.application,
        operator=name,
        output_operation=output,
    )


RULE: Final = Rule("RT103", judge, FailingBatchesLimits)
