"""The Python code of tasks takes most of their time.

What it reports
---------------
A query whose tasks spend most of their time in Python workers, while the JVM uses almost no CPU time.

Why it matters
--------------
The Python code alone limits how many records a trigger can process. The rest of Spark is fast enough.

How it decides
--------------
In the recent triggers, the stage with the longest task runs in Python workers for at least `python-share` of its run
time. Spark 4 records the time in Python workers. In older versions, the stage must send data to Python workers, and the
JVM must use CPU for at most `cpu` of the run time. The rule needs an event log with at least `min-triggers` triggers,
or one that takes `long-trigger` intervals. A single trigger gives medium confidence. The rule ignores queries with time
to spare: their triggers take less than `use` of the interval, or pause if the interval is unknown.

Spark does not record the CPU time of Python workers, so the event log does not show whether the code computes or waits.
If it takes `time-per-record` or more per record, it probably waits. The finding takes the names of the Python functions
from the plan in the event log.

What to do
----------
Inspect the workers with `py-spy` or `top`. If they wait for a service or a database, more cores do not help. Send
requests in batches or concurrently, reuse connections, and run more tasks than cores. If the workers compute, use
Spark's own functions, a pandas UDF, or more cores.

False alarms
------------
Python workers may also wait for their input, if the source upstream of the UDF is slow.
"""

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.code import line_of, remedies_for_line, with_line


class Limits(h.Limits):
    python_share: float = h.limit(0.7, "share", "minimum share of run time spent in Python workers")
    cpu: float = h.limit(0.1, "share", "maximum share of run time that is CPU time of the JVM")
    min_triggers: float = h.limit(
        2, "triggers", "minimum number of triggers; a single trigger may be a coincidence"
    )
    long_trigger: float = h.limit(
        10, "intervals", "minimum duration of a single trigger; a cold start takes a few intervals"
    )
    time_per_record: float = h.limit(
        20, "ms", "minimum run time per record; computation takes microseconds"
    )
    use: float = h.use_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per query whose tasks spend most of their time in Python code."""
    for flow in h.flows_of(assessed):
        if not h.has_no_pause(flow, use=limits.use):
            continue
        units = [u for u in flow.units if u.rows and u.stage is not None and u.stage.run_ms]
        shares = [(share, u) for u in units if (share := _share(u.stage, limits)) is not None]
        if not _are_enough(flow, [unit for _, unit in shares], len(units), limits):
            continue
        yield _finding(flow, [unit for _, unit in shares], [share for share, _ in shares], limits)


def _are_enough(flow: h.Flow, found: list[h.Unit], among: int, limits: Limits) -> bool:
    """Return whether most triggers, and enough of them, spend their time in Python. A very long one is enough."""
    lasted, interval = sum(unit.duration_ms for unit in found), flow.state.interval_ms
    is_long = interval is not None and lasted >= limits.long_trigger * interval
    fewest = 1 if is_long else limits.min_triggers
    return len(found) >= max(fewest, h.defaults.MOSTLY * among, 1)


def _share(stage: h.StageLoad | None, limits: Limits) -> float | None:
    """Return the share of a stage's run time spent in Python workers, or None below the limit."""
    if stage is None or not stage.run_ms or not stage.python:
        return None
    idle = 1 - (stage.cpu_ms or 0) / stage.run_ms
    if stage.python_ms is None:
        return idle if idle >= 1 - limits.cpu else None
    share = min(1.0, stage.python_ms / stage.run_ms)
    return share if share >= limits.python_share else None


def _finding(flow: h.Flow, units: list[h.Unit], shares: list[float], limits: Limits) -> h.Finding:
    stages = [unit.stage for unit in units if unit.stage is not None]
    cpu = median((stage.cpu_ms or 0) / (stage.run_ms or 1) for stage in stages)
    share, run = median(shares), median(stage.run_ms or 0 for stage in stages)
    records = [unit.records for unit in units if unit.records]
    per_record = run / median(records) if records else 0.0
    each = f", {h.fmt.duration(per_record)} per record" if records else ""
    stacks = line_of(flow, "slow-python-code")
    code, explain = _code(flow), h.explanation("slow-python-code")
    if per_record >= limits.time_per_record:
        explain += " Computation rarely takes that long for one record, so the code probably waits."
    of = f"median of {flow.plural(len(units))}"
    return h.flow_finding(
        flow,
        units,
        title=f"{code} takes {h.fmt.percent(share)} of the task time{flow.of_query}{each}; "
        f"the JVM's own CPU time is {h.fmt.percent(cpu)} of it",
        explain=explain,
        why=with_line(f"{code} takes {h.fmt.percent(share)} of the task time", stacks),
        cause="slow-python-code",
        confidence=h.Confidence.MEDIUM if len(units) < limits.min_triggers else h.Confidence.HIGH,
        rank=h.Rank.EXPLANATION,
        count=len(units),
        measurements=(
            h.measurement("python-share", round(share, 3), "share", limits.python_share, over=of),
            h.measurement(
                "time-per-record", round(per_record, 1), "ms", limits.time_per_record, over=of
            ),
            h.measurement("jvm-cpu-share", round(cpu, 3), "share", limits.cpu, over=of),
        ),
        actions=remedies_for_line(flow, "slow-python-code", stacks),
    )


def _code(flow: h.Flow) -> str:
    """Return the names of the query's Python functions, or a general phrase if its plan is unknown."""
    names = flow.query.plan.functions if flow.query is not None else ()
    return f"{h.fmt.listed(names)} (Python)" if names else "Python code"


RULE = h.Rule("RT314", judge, Limits, causes=("slow-python-code",), needs="work")
