"""Finds the last trigger of a query if the input contains its start but not its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from flowdiag.analyses.rate.assemble.rows import Row, Unit, event_of, field_of, ref_of
from flowdiag.analyses.rate.facts import OpenTask, OpenTrigger, Trigger, Work


@dataclass(slots=True)
class QueryRows:
    """The records of one query: triggers by run, batch and start, and the runs with their starts."""

    name: str | None = None
    runs: dict[str, None] = field(default_factory=dict)
    triggers: dict[tuple[str, int | None, int], Trigger] = field(default_factory=dict)
    begun: set[tuple[str, int]] = field(default_factory=set)
    events: list[Row] = field(default_factory=list)
    files: list[Row] = field(default_factory=list)  # offsets and commits

    def add(self, row: Row, run: str) -> None:
        self.name = self.name or row.get("job_name") or None
        self.runs[run] = None

    def add_files(self, by_folder: Mapping[str, list[Row]], *, alone: bool) -> None:
        """Add the rows about offsets and commits, which contain the checkpoint folder but no query."""
        folders = {field_of(row, "folder").rstrip("/") for row in self.events} - {""}
        if not folders and alone and len(by_folder) == 1:
            folders = set(by_folder)
        for folder in sorted(folders):
            self.files += by_folder.get(folder, ())


def files_by_folder(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Group the rows about offsets and commits by their checkpoint folder."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[field_of(row, "folder").rstrip("/")].append(row)
    return found


def unfinished_trigger(
    query: QueryRows,
    triggers: Sequence[Trigger],
    work: Mapping[Unit, Work],
    tasks: Mapping[Unit, tuple[OpenTask, ...]],
    end_us: int | None,
) -> OpenTrigger | None:
    """Return the last trigger of the latest run if it has not ended.

    Args:
        query: the records of the query.
        triggers: the triggers with progress reports, in order.
        work: the jobs of each trigger.
        tasks: the tasks of each trigger that have not ended.
        end_us: the end of the input, or the stop of the application.
    """
    run = latest_run(query, triggers)
    began, until = _beginnings(query, work, run), run_end_us(query, run, end_us)
    last = max(began, default=-1)
    if until is None or last < 0 or last <= _last_ended(query, triggers):
        return None
    since, row = began[last]
    unit = (None, run, str(last))
    open_tasks = tasks.get(unit, ())
    refs = [task.ref for task in open_tasks] if row is None else [ref_of(row)]
    return OpenTrigger(
        batch=last,
        since_us=since,
        until_us=until,
        work=work.get(unit),
        tasks=open_tasks,
        ref=next(iter(refs), None),
    )


def run_end_us(query: QueryRows, run: str | None, end_us: int | None) -> int | None:
    """Return the end of a run or, if unknown, of the input."""
    stops = [
        row["time_us"]
        for row in query.events
        if event_of(row) == "terminated" and field_of(row, "run_id") == run and row.get("time_us")
    ]
    return min([*stops, *([] if end_us is None else [end_us])], default=None)


def _last_ended(query: QueryRows, triggers: Sequence[Trigger]) -> int:
    """Return the ID of the last batch with a commit or a progress report, or -1."""
    commits = [row.get("checkpoint") for row in query.files if event_of(row) == "commits"]
    numbers = (*commits, *(trigger.batch for trigger in triggers))
    return max((number for number in numbers if number is not None), default=-1)


def latest_run(query: QueryRows, triggers: Sequence[Trigger]) -> str | None:
    """Return the run that started last, or else the run of the last trigger."""
    started = [
        (row.get("time_us") or 0, field_of(row, "run_id"))
        for row in query.events
        if event_of(row) == "started"
    ]
    started += [(t.time_us, t.run_id) for t in triggers[-1:]]
    return max(started)[1] if started else next(reversed(query.runs), None)


def _beginnings(
    query: QueryRows, work: Mapping[Unit, Work], run: str | None
) -> dict[int, tuple[int, Row | None]]:
    """Return, by batch ID, the start time of each trigger of a run, with its log record or None."""
    began: dict[int, tuple[int, Row | None]] = {}
    for row in query.files:
        number, time_us = row.get("checkpoint"), row.get("time_us")
        if event_of(row) == "offsets" and number is not None and time_us is not None:
            began.setdefault(number, (time_us, row))
    for (_, of_run, batch), jobs in work.items():
        if of_run == run and batch is not None and batch.isdecimal() and jobs.start_ms is not None:
            since, record = began.get(int(batch), (jobs.start_ms * 1000, None))
            began[int(batch)] = (min(since, jobs.start_ms * 1000), record)
    return began
