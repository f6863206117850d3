"""Records wait long for asynchronous state.

What it reports
---------------
The task where back pressure starts, if its records wait for asynchronous state, with the mean wait and the number
of waiting records. Jobs have such state from Flink 2.0 on, usually in ForSt.

Why it matters
--------------
A task may hold only a limited number of records in flight (`execution.async-state.in-flight-records-limit`). Before
each snapshot, it waits until all of them are done. Slow state therefore delays checkpoints as well as records.

How it decides
--------------
The mean wait is the number of records in flight (`asyncStateProcessing.numInFlightRecords`) divided by the rate of
completed records, as Little's law states. It must be at least five seconds, and upstream tasks must wait for the task.
The busy time does not count, because a task is idle while it waits for requests in flight.

False alarms
------------
With few records, each request waits for its batch (`execution.async-state.buffer-timeout`, one second by default), but
then no upstream task waits.
"""

from dataclasses import replace

from flowdiag.analyses.queues import helpers as h


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task and spell."""
    for spell in h.find_spells(job):
        wait = h.state_waits(job).get(spell.task)
        if wait is None or h.slow_service(job, spell) is not None:
            continue
        task = h.fmt.shorten(spell.task)
        count = h.fmt.plural(round(wait.in_flight), "record")
        seconds = h.fmt.duration(wait.seconds * 1e3)
        found = h.spell_finding(job, spell, f"{task} waits for its state: {seconds} per record")
        yield replace(
            found,
            subject=h.task_subject(job, spell.task),
            why=f"on average, {count} per subtask wait for asynchronous state, each for {seconds}",
            cause="slow-async-state",
            rank=h.Rank.ROOT_CAUSE,
            explain=h.explanation("slow-async-state"),
            measurements=(
                h.measurement(
                    "state-wait",
                    round(wait.seconds, 1),
                    "s",
                    h.HELD_S,
                    over="mean over all records",
                ),
                h.measurement(
                    "records-in-flight",
                    round(wait.in_flight),
                    "records",
                    over="mean over the subtasks",
                ),
            ),
            evidence=h.records_of(
                h.strongest_reports(wait.samples, ("in_flight",)), "in_flight", key=wait.key
            ),
            actions=h.remedies("slow-async-state", job.job),
            votes=(),
        )


RULE = h.Rule(
    "IO309", judge, causes=("slow-async-state",), needs="async-state", severity=h.Severity.CRITICAL
)
