"""Statements that a database works on most of the time, in outputs of its sessions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.model.finding import Finding
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.neighbours.facts import DatabaseSession, Neighbours
from flowdiag.analyses.neighbours.statements import find_long_statement
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.parsers.neighbours.sessions import Session, read_sessions

from .queues_workbench import CHAIN, FIRST, MINUTE, Queues, findings

UPDATE = "UPDATE customers SET total = total + $1 WHERE name = $2"
SINK = CHAIN[-1][0]


def snapshot(second: int, **different: object) -> DatabaseSession:
    """Return the session of a sink that works, some seconds after the first sample."""
    row = Session(
        pid=7,
        application="PostgreSQL JDBC Driver",
        client="10.0.0.5",
        state="active",
        wait=None,
        event=None,
        query=UPDATE,
        blocked_by=(),
        time_us=FIRST * MINUTE + second * 1_000_000,
        offset=second,
    )
    return DatabaseSession(replace(row, **different), Ref(0, row.offset))  # type: ignore[arg-type]


WORKING = tuple(snapshot(second) for second in (5, 20, 35, 50))


def job(*sessions: DatabaseSession, culprit: str = SINK) -> JobQueues:
    """Return a job in which all tasks before the culprit wait for it."""
    queues = Queues()
    for task, _ in CHAIN[: [name for name, _ in CHAIN].index(culprit)]:
        queues.set_metrics(task, busy=50.0, idle=50.0, back_pressured=900.0)
    queues.set_metrics(culprit, busy=980.0, idle=20.0, input_queue=9.0)
    return replace(queues.job(), neighbours=Neighbours(sessions=sessions))


def culprit_of(known: JobQueues) -> Finding:
    [found] = [finding for finding in findings(known).values() if finding.why]
    return found


def test_a_sink_waits_for_the_statement_that_its_database_works_on() -> None:
    found = culprit_of(job(*WORKING))
    assert (found.cause, found.subject.kind, found.subject.service) == (
        "slow-database",
        "service",
        "PostgreSQL",
    )
    assert f"the database works on {UPDATE} in 4 of 4 snapshots" in (found.why or "")
    first = found.actions[0].text
    assert first.startswith("Run EXPLAIN, without ANALYZE") and UPDATE in first
    assert not [action for action in found.actions if "parallelism" in action.text]


@pytest.mark.parametrize(
    "different",
    [
        {"state": "idle", "wait": "Client"},
        {"wait": "Client"},
        {"wait": "Lock", "blocked_by": (9,)},
        {"application": "psql"},
        {"query": "COMMIT"},
        {"query": "START_REPLICATION SLOT pricing LOGICAL 0/1"},
        {"query": None},
    ],
    ids=["idle", "waits for the job", "lock", "other program", "commit", "changes", "no text"],
)
def test_other_sessions_show_no_long_statement(different: dict[str, object]) -> None:
    sessions = tuple(replace_row(each, **different) for each in WORKING)
    assert find_long_statement(Neighbours(sessions=sessions), None, None) is None


def replace_row(session: DatabaseSession, **different: object) -> DatabaseSession:
    return session._replace(row=replace(session.row, **different))  # type: ignore[arg-type]


def test_a_session_that_is_idle_in_many_snapshots_is_not_long() -> None:
    idle = (snapshot(8, state="idle", wait="Client"), snapshot(23, state="idle", wait="Client"))
    assert find_long_statement(Neighbours(sessions=(*WORKING, *idle)), None, None) is None
    assert find_long_statement(Neighbours(sessions=WORKING[:2]), None, None) is None
    assert culprit_of(job(*WORKING, *idle)).cause == "slow-operator"


def test_only_the_snapshots_of_the_period_count() -> None:
    early = tuple(snapshot(second, state="idle", wait="Client") for second in (-45, -30, -15))
    known = Neighbours(sessions=(*early, *WORKING))
    assert find_long_statement(known, None, None) is None
    found = find_long_statement(known, FIRST * MINUTE, None)
    assert found is not None and found.snapshots == (4, 4)


def test_a_task_that_is_no_sink_is_not_explained_by_a_statement() -> None:
    assert culprit_of(job(*WORKING, culprit="aggregate")).cause == "slow-operator"


def test_the_process_list_of_mysql_shows_a_long_statement() -> None:
    header = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n"
    text = header + f"7\tpricing\t10.0.0.5:51\tshop\tQuery\t3\tUpdating\t{UPDATE}\n"
    rows = [row for n in range(3) for row in read_sessions(text, f"list-2026112{n}T000000Z.txt")]
    known = Neighbours(sessions=tuple(DatabaseSession(row, Ref(0, 0)) for row in rows))
    found = find_long_statement(known, None, None)
    assert found is not None and (found.text, found.snapshots) == (UPDATE, (3, 3))
