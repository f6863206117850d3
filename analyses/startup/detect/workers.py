"""Finds workers that were requested or started but never registered."""

from __future__ import annotations

from flowdiag.analyses.startup import helpers as h


def all_jobs_run(facts: h.StartupFacts) -> bool:
    """Return whether the last start of every job reached RUNNING."""
    starts = [job.starts[-1] if job.starts else None for job in facts.jobs]
    return bool(starts) and all(s is not None and s.running_us is not None for s in starts)


def all_jobs_ran_after(facts: h.StartupFacts, moment_us: int | None) -> bool:
    """Return whether every job reached RUNNING after a moment, even if it stopped later."""
    ran = [max((s.running_us or 0 for s in job.starts), default=0) for job in facts.jobs]
    return moment_us is not None and bool(ran) and min(ran) > moment_us


def never_registered(facts: h.StartupFacts) -> list[h.Worker]:
    """Return workers that ended without registering and that no record shows with a task."""
    dead = [w for w in facts.workers if w.ended_us is not None and w.registered_us is None]
    if not dead:
        return []
    ran = {task.taskmanager for job in facts.jobs for s in job.starts for task in s.tasks}
    ran |= {attempt.taskmanager for job in facts.jobs for attempt in job.job.attempts}
    ran |= {i.taskmanager for i in h.incidents_of(facts) if i.kind == "task-failure"}
    return [worker for worker in dead if worker.name not in ran]


def refusal_of(facts: h.StartupFacts) -> tuple[str | None, h.Cited]:
    """Return why the resource manager refused requests, with its records. The reason is None if it logs none."""
    if large := facts.of_kind("yarn-request-too-large"):
        values = large[-1].values
        text = f"{values.get('asked')} requested, but the largest allowed container is {values.get('offered')}"
        return text, [(t.ref, t.first_us) for t in large]
    failed = [
        incident
        for incident in h.incidents_of(facts)
        if incident.text.get("template") == "worker-request-failed" and incident.cause
    ]
    if failed:
        last = max(failed, key=lambda i: i.time_us or 0)
        return last.cause, [(i.ref, i.time_us) for i in failed]
    if rate := facts.of_kind("worker-failure-rate"):
        return f"too many failures: {rate[-1].values.get('rate')}", [(rate[-1].ref, None)]
    return None, []
