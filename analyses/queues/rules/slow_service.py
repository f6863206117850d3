"""The task that limits a job waits for a database or a broker.

What it reports
---------------
The system that the task waits for, its host and port if the inputs contain them, and the evidence.

Why it matters
--------------
Back pressure starts at the task and the task looks busy, but it computes little. A faster operator or another host
changes nothing.

How it decides
--------------
Back pressure starts at the task, as for `slow-operator`, and one of these is true:

- The threads of its connector, or of its lookup join, wait for a response from a database in most thread dumps. Calls
  in the job's own code count as `slow-operator`, because that code can call the system in another way.
- The task is a sink, and most snapshots of `pg_stat_activity` or `SHOW PROCESSLIST` show the same statement of the job at work. It waits
  neither for a lock nor for the job. Often, it reads a whole table for lack of an index.
- The requests of its Kafka producers take 500 ms or more on average, or their buffers are full.
- The brokers delay the producers by 50 ms or more on average, because of a quota.

False alarms
------------
A healthy system seems slow to a TaskManager with a slow network. Compare several TaskManagers.
"""

from dataclasses import replace

from flowdiag.analyses.queues import helpers as h

_REMEDIES = {
    "slow-kafka": ("brokers", "buffer"),
    "slow-database": ("statements", "batch", "parallelism"),
}
"""The remedies for sinks, for causes that also have other remedies."""
_STATEMENT_REMEDIES = ("explain", "load")
"""The remedies for a database that works on a statement: neither fewer round trips nor more sessions help."""
_LOOKUP_REMEDIES = ("statements", "lookup-cache", "parallelism")


def judge(job: h.JobQueues, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per task and spell."""
    for spell in h.find_spells(job):
        service = h.slow_service(job, spell)
        if service is None or h.waits_for_database(job, spell.task):
            continue
        task = h.fmt.shorten(spell.task)
        title = f"{h.fmt.capital(service.name)} is slow: {task} waits for it"
        if service.cause == "kafka-quota":
            title = f"{h.fmt.capital(service.name)} throttles {task} because of a quota"
        found = h.spell_finding(job, spell, title)
        remedies = _LOOKUP_REMEDIES if service.lookup else _REMEDIES.get(service.cause, ())
        remedies = _STATEMENT_REMEDIES if service.statement else remedies
        yield replace(
            found,
            subject=h.service_subject(job, service.name, spell.task),
            why=f"{task} waits for it: {service.why}",
            cause=service.cause,
            rank=h.Rank.ROOT_CAUSE,
            explain=h.explanation(service.cause),
            measurements=(*service.measurements, *found.measurements),
            evidence=(*service.evidence, *found.evidence),
            actions=h.remedies(
                service.cause, job.job, *remedies, task=task, statement=service.statement or ""
            ),
            votes=(),
        )


RULE = h.Rule(
    "IO203",
    judge,
    h.Limits,
    causes=("slow-database", "slow-kafka", "kafka-quota"),
    needs="records",
    severity=h.Severity.CRITICAL,
)
