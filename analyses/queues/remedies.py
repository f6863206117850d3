"""Forecasts of the usual remedies, with the credit model fitted to an observed job.

A simulation takes seconds of CPU time per job, so it only runs on request.
"""

from __future__ import annotations

from flowdiag.analyses.contract import queues as wire
from flowdiag.analyses.queues.credit_facts import observe
from flowdiag.analyses.queues.credit_fit import Fit, fit, what_if
from flowdiag.analyses.queues.credits.job import ModelError
from flowdiag.analyses.queues.facts import JobQueues, QueueFacts, options_of
from flowdiag.analyses.queues.root import find_spells


def queue_remedies(facts: QueueFacts) -> list[wire.QueueWhatIf]:
    """Return forecasts for each job with back pressure."""
    return [
        _forecasts_of(job) for job in facts.jobs if any(not s.is_ordinary for s in find_spells(job))
    ]


def _forecasts_of(job: JobQueues) -> wire.QueueWhatIf:
    problem = None
    fitted: Fit | None = None
    observed = observe(job, options_of(job.job))
    if observed is None:
        problem = (
            "the model needs records, queues and the job graph, which the input does not contain"
        )
    else:
        try:
            fitted = fit(observed)
        except ModelError as error:
            problem = str(error)
    if fitted is not None and fitted.is_poor:
        problem = "the model does not fit this job, so its forecasts would be useless"
    return wire.QueueWhatIf(
        job_id=job.job.key.job_id,
        job_name=job.job.name,
        bottleneck=fitted.bottleneck if fitted else None,
        problem=problem,
        fit=[
            wire.QueueFit(
                name=item.name, observed=round(item.observed, 3), modelled=round(item.modelled, 3)
            )
            for item in (fitted.compared if fitted else ())
        ],
        forecasts=_forecasts(fitted) if fitted is not None and problem is None else [],
        notes=list(fitted.notes) if fitted else [],
    )


def _forecasts(fitted: Fit) -> list[wire.QueueForecast]:
    return [
        wire.QueueForecast(
            change=prediction.name,
            task=prediction.task,
            records_per_s=None if prediction.problem else round(prediction.throughput, 1),
            queue=None if prediction.problem else round(prediction.queue, 1),
            checkpoint_ms=None if prediction.barrier_ms is None else round(prediction.barrier_ms),
            at_least_ms=None if prediction.at_least_ms is None else round(prediction.at_least_ms),
            problem=prediction.problem,
        )
        for prediction in what_if(fitted, "as recorded")
    ]
