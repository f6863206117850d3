"""Judges lags, partitions, locks and outages on facts without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.flink.job import (
    UNKNOWN_JOB,
    Checkpoint,
    ClusterFacts,
    Incident,
    Status,
)
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.model.finding import Confidence, Finding, Severity, State
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.model.rule import Rule, apply
from flowdiag.analyses.neighbours.facts import (
    BrokerRecord,
    DatabaseSession,
    DatabaseSlot,
    Lag,
    Neighbours,
)
from flowdiag.analyses.neighbours.locks import find_blocked
from flowdiag.analyses.queues.assemble import assemble_queues
from flowdiag.analyses.queues.facts import Flow, FlowPoint, JobQueues
from flowdiag.analyses.queues.flow import flow_of
from flowdiag.analyses.queues.neighbours.lags import group_trend
from flowdiag.analyses.queues.neighbours.outages import server_name, spells_of_records
from flowdiag.analyses.queues.rules import (
    broker_unreachable,
    consumer_lag,
    database_lock,
    deleted_records,
    failed_commits,
    recreated_slot,
    refused_records,
    refused_requests,
    retained_wal,
    unread_partitions,
)
from flowdiag.analyses.rate.assessment.assess import assess
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.rate.rules import blocked_by_database
from flowdiag.parsers.neighbours.broker_log import BrokerEvent
from flowdiag.parsers.neighbours.consumer_groups import PartitionLag
from flowdiag.parsers.neighbours.replication import ReplicationSlot
from flowdiag.parsers.neighbours.sessions import Session

from . import rate_workbench as rates
from .queues_workbench import CHAIN, Queues, findings

SECOND = 1_000_000
BEGIN = 1_795_642_200 * SECOND


NOTHING = Neighbours()


def job(neighbours: Neighbours = NOTHING, incidents: tuple[Incident, ...] = ()) -> JobQueues:
    """Return a job without metrics."""
    known = replace(UNKNOWN_JOB, incidents=incidents, last_us=BEGIN + 300 * SECOND)
    return JobQueues(job=known, topology=Topology(known), samples={}, neighbours=neighbours)


def lags(per_round: list[int], committed: int = 1000, group: str = "pricing") -> Neighbours:
    """Return a partition's lag every 15 s. Between samples, the consumer group reads 15 000
    records."""
    rows = [
        PartitionLag(
            group=group,
            topic="orders",
            partition=0,
            committed=committed + 15_000 * n,
            end=None,
            lag=lag,
            consumer=None,
            time_us=BEGIN + 15 * n * SECOND,
            offset=n,
        )
        for n, lag in enumerate(per_round)
    ]
    return Neighbours(lags=tuple(Lag(row, Ref(0, row.offset)) for row in rows))


@pytest.mark.parametrize(
    ("per_round", "found"),
    [
        ([1000, 6000, 11_000, 16_000], True),
        ([16_000, 11_000, 6000, 1000], False),
        ([16_000, 16_100, 15_900, 16_000], False),
        ([1000, 3000, 2000, 3500], False),  # less than ten seconds of reading
        ([1000, 16_000], False),  # two outputs are no trend
    ],
)
def test_a_lag_is_reported_if_it_grows(per_round: list[int], found: bool) -> None:
    findings = list(consumer_lag.RULE.judge(job(lags(per_round)), consumer_lag.RULE.limits()))
    assert bool(findings) is found


def test_lags_of_several_groups_are_not_assigned_to_a_job() -> None:
    one, other = lags([1, 2, 3]), lags([1, 2, 3], group="billing")
    assert group_trend(job(Neighbours(lags=(*one.lags, *other.lags)))) is None


def results_of(rule: Rule, known: JobQueues) -> list[Finding]:
    """Return the findings of a rule with its default limits."""
    return [item for item in rule.judge(known, rule.limits()) if isinstance(item, Finding)]


def session(
    pid: int, second: int, wait: str | None, blocked_by: tuple[int, ...]
) -> DatabaseSession:
    row = Session(
        pid=pid,
        application="PostgreSQL JDBC Driver" if pid < 10 else "psql",
        client=None,
        state="active" if pid < 10 else "idle in transaction",
        wait=wait,
        event="relation",
        query=None,
        blocked_by=blocked_by,
        time_us=BEGIN + second * SECOND,
        offset=second * 100 + pid,
    )
    return DatabaseSession(row, Ref(0, row.offset))


def discovery(second: int, template: str, **text: str) -> Incident:
    return Incident(
        kind="partitions",
        time_us=BEGIN + second * SECOND,
        text={"template": template, **text},
        ref=Ref(0, second),
    )


OFF = discovery(10, "partition-discovery-off", group="pricing")
FOUND = discovery(11, "partitions-discovered", partitions="orders-0, orders-1")


@pytest.mark.parametrize(
    ("records", "created", "found"),
    [
        ((OFF, FOUND), ((0, "orders-0"), (60, "orders-2"), (61, "orders-3")), 2),
        ((FOUND,), ((60, "orders-2"),), None),  # discovery is on
        ((OFF, FOUND), ((60, "invoices-2"),), None),
        ((OFF, FOUND), ((5, "orders-2"),), None),  # before the start
        ((OFF, FOUND), ((60, "orders-1"),), None),
    ],
)
def test_partitions_that_are_added_later(
    records: tuple[Incident, ...], created: tuple[tuple[int, str], ...], found: int | None
) -> None:
    events = tuple(
        BrokerRecord(
            BrokerEvent(
                kind="created", time_us=BEGIN + second * SECOND, offset=second, partition=name
            ),
            Ref(1, second),
        )
        for second, name in created
    )
    findings = results_of(unread_partitions.RULE, job(Neighbours(events=events), records))
    assert [finding.count for finding in findings] == ([] if found is None else [found])


DENIED = "org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized to access group: pricing"
MOVED = "org.apache.kafka.clients.consumer.RetriableCommitFailedException: Offset commit failed with a retriable exception."


@pytest.mark.parametrize(
    ("seconds", "cause", "remedy"),
    [
        ((0, 5), DENIED, None),
        ((0, 5, 10), DENIED, "Read permission"),
        ((0, 5, 10), MOVED, "group ID"),
        ((0, 5, 10), None, "group ID"),
    ],
)
def test_failed_offset_commits_are_reported(
    seconds: tuple[int, ...], cause: str | None, remedy: str | None
) -> None:
    records = tuple(
        Incident(
            kind="commit-failed",
            time_us=BEGIN + second * SECOND,
            checkpoint=second,
            cause=cause,
            ref=Ref(0, second),
        )
        for second in seconds
    )
    known = job(lags([1000, 6000, 11_000, 16_000]), records)
    findings = results_of(failed_commits.RULE, known)
    assert [finding.count for finding in findings] == ([] if remedy is None else [3])
    assert remedy is None or remedy in findings[0].actions[0].text
    # The lag of the group then only shows that nothing is committed.
    assert bool(results_of(consumer_lag.RULE, known)) is (remedy is None)


def slots(*rows: tuple[int, int, bool], status: str = "extended") -> Neighbours:
    """Return samples of a replication slot, given as (second, position, active). The log grows by a
    million bytes per second."""
    return Neighbours(
        slots=tuple(
            DatabaseSlot(
                ReplicationSlot(
                    name="orders",
                    active=active,
                    restart=restart,
                    newest=None,
                    retained=float(1_000_000 * second - restart),
                    status=status,
                    time_us=BEGIN + second * SECOND,
                    offset=second,
                ),
                Ref(0, second),
            )
            for second, restart, active in rows
        )
    )


@pytest.mark.parametrize(
    ("known", "remedy"),
    [
        (slots((0, 0, False), (30, 0, False), (60, 0, False)), "drop"),
        (slots((0, 0, False), (30, 0, False), (50, 0, False)), None),  # too short
        (slots((0, 0, False), (60, 0, False)), None),  # two outputs
        (slots((0, 0, False), (30, 9, False), (60, 18, False)), None),  # advances
        (slots((0, 0, True), (60, 0, True), (300, 0, True)), None),  # until the next checkpoint
        (slots((0, 0, True), (300, 0, True), (600, 0, True)), "open for a long time"),
        (slots((0, 0, False), (60, 0, False), (70, 0, True)), None),  # the job is back
        (slots((0, 0, True), status="lost"), "open for a long time"),
    ],
)
def test_a_slot_that_stays_retains_the_log(known: Neighbours, remedy: str | None) -> None:
    findings = results_of(retained_wal.RULE, job(known))
    assert [finding.cause for finding in findings] == ([] if remedy is None else ["retained-wal"])
    if remedy is not None:
        assert remedy in findings[0].actions[0].text
        assert findings[0].subject.service == "PostgreSQL"


@pytest.mark.parametrize(("used", "ended", "count"), [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_a_new_slot_is_not_used_until_the_initial_snapshot_has_been_read(
    used: int, ended: int, count: int
) -> None:
    known = slots((0, 5, bool(used)), (60, 9, False), (120, 9, False), (180, 9, False))
    created = Incident(kind="slot-created", time_us=BEGIN, text={"slot": "orders"})
    end = Incident(kind="cancelled", time_us=BEGIN)
    queues = job(known, (created, end)[: 1 + ended])
    assert len(results_of(retained_wal.RULE, queues)) == count


def test_the_end_of_a_chain_of_locks_is_the_culprit() -> None:
    sessions = tuple(
        each
        for second in (0, 15)
        for each in (
            session(1, second, "Lock", (2,)),
            session(2, second, "Lock", (99,)),
            session(99, second, "Client", ()),
        )
    )
    known = job(Neighbours(sessions=sessions))
    [finding] = results_of(database_lock.RULE, known)
    assert finding.subject.service == "PostgreSQL"
    assert "process 99 (idle in transaction)" in finding.title
    assert flow_of(known) is None  # neither busy times nor a lag


LOCKED = tuple(
    each
    for second in (0, 15)
    for each in (session(1, second, "Lock", (99,)), session(99, second, "Client", ()))
)


@pytest.mark.parametrize(
    ("lasts", "sessions", "queries", "found"),
    [
        (5000, LOCKED, 1, True),
        (300, LOCKED, 1, False),  # the query has time to spare
        (5000, LOCKED[:2], 1, False),  # one output
        (5000, LOCKED, 2, False),  # either query may wait
    ],
)
def test_a_lock_is_reported_if_a_single_slow_query_may_wait_for_it(
    lasts: int, sessions: tuple[DatabaseSession, ...], queries: int, found: bool
) -> None:
    triggers = [rates.trigger(n, lasts, time_us=BEGIN + 5 * n * SECOND) for n in range(30)]
    app = rates.application(
        queries=tuple(replace(rates.query(triggers), id=str(n)) for n in range(queries))
    )
    known = Neighbours(sessions=sessions, addresses={"PostgreSQL": "db.example:5432"})
    facts = assess(RateFacts(applications=(app,), neighbours=known))
    results = apply((blocked_by_database.RULE,), facts, facts.applications, None)[0].findings
    assert bool(results) is found
    if found:
        assert results[0].subject.service == "PostgreSQL at db.example:5432"
        assert "process 99 (idle in transaction)" in results[0].title


def named(each: DatabaseSession, application: str) -> DatabaseSession:
    return each._replace(row=replace(each.row, application=application, client="10.0.0.7"))


@pytest.mark.parametrize(
    ("waits", "holds", "clause"),
    [
        ("warehouse", "warehouse", "(idle in transaction, of the same program)"),
        ("warehouse", "reports", "(idle in transaction)"),
        ("pgAdmin 4 - DB:shop", "warehouse", None),
    ],
)
def test_sessions_of_other_drivers_may_wait_for_their_own_program(
    waits: str, holds: str, clause: str | None
) -> None:
    sessions = tuple(named(each, waits if each.row.pid == 1 else holds) for each in LOCKED)
    blocked = find_blocked(Neighbours(sessions=sessions), None)
    if clause is None:
        assert blocked is None
        return
    assert blocked is not None
    assert (
        blocked.clauses[0]
        == f"1 of 2 sessions of warehouse waits for a lock of process 99 {clause}"
    )


def test_a_lock_that_one_output_shows_is_not_reported() -> None:
    sessions = (
        session(1, 0, "Lock", (99,)),
        session(99, 0, "Client", ()),
        session(1, 15, None, ()),
    )
    assert (
        list(
            database_lock.RULE.judge(
                job(Neighbours(sessions=sessions)), database_lock.RULE.limits()
            )
        )
        == []
    )


def unreachable(*seconds: int) -> tuple[Incident, ...]:
    return tuple(
        Incident(
            kind="unreachable",
            time_us=BEGIN + second * SECOND,
            text={
                "address": "kafka-1.example/10.0.0.11:9092",
                "records": "8",
                "client": "Consumer",
            },
            ref=Ref(0, second),
        )
        for second in seconds
    )


@pytest.mark.parametrize(
    ("seconds", "state"),
    [((0, 10, 20), State.RECOVERED), ((270, 280, 290), State.ONGOING), ((0, 2), None)],
)
def test_an_outage_of_a_broker_has_its_state(seconds: tuple[int, ...], state: State | None) -> None:
    known = job(incidents=unreachable(*seconds))
    findings = results_of(broker_unreachable.RULE, known)
    assert [finding.state for finding in findings] == ([] if state is None else [state])
    assert all(f.subject.service == "Kafka at kafka-1.example:9092" for f in findings)


@pytest.mark.parametrize("moved", [0.0, 100.0], ids=["nothing moves", "records move"])
def test_a_broker_that_hangs_is_reported_if_no_record_moves(moved: float) -> None:
    """A client whose source waits for other tasks also closes connections, but then records move."""
    bench = Queues(minutes=2)
    for task, _ in bench.tasks:
        bench.set_metrics(task, records_in=moved, records_out=moved)
    records = tuple(
        Incident(
            kind="unreachable",
            time_us=bench.at(1) + n * SECOND,
            text={"template": "kafka-request-unanswered", "node": node, "client": client},
            ref=Ref(0, n),
        )
        for n, (node, client) in enumerate([("1", "Producer"), ("2147483646", "Consumer")])
    )
    known = bench.job()
    known = replace(known, job=replace(known.job, incidents=records))
    found = results_of(broker_unreachable.RULE, known)
    assert bool(found) is (moved == 0.0)
    for finding in found:
        assert finding.subject.service == "Kafka node 1"
        assert (finding.severity, finding.cause) == (Severity.CRITICAL, "kafka-timeout")
        assert "2 connections of consumer and producer" in (finding.why or "")


@pytest.mark.parametrize(("last", "severity"), [(5, Severity.INFO), (10, Severity.WARNING)])
def test_a_brief_outage_of_a_broker_is_information(last: int, severity: Severity) -> None:
    (found,) = results_of(broker_unreachable.RULE, job(incidents=unreachable(0, last)))
    assert found.severity is severity


@pytest.mark.parametrize(
    ("address", "node", "template", "wrong"),
    [
        ("localhost/127.0.0.1:9092", "1", "kafka-node-unreachable", True),
        ("localhost/127.0.0.1:9092", "-1", "kafka-node-unreachable", False),
        ("kafka-1.internal:9092", "1", "kafka-node-unresolved", True),
        ("kafka-1.internal:9092", "-1", "kafka-node-unresolved", False),
        ("kafka-1.example/10.0.0.11:9092", "1", "kafka-node-unreachable", False),
    ],
)
def test_an_address_that_only_the_broker_names_is_advertised(
    address: str, node: str, template: str, wrong: bool
) -> None:
    records = tuple(
        replace(record, text=record.text | {"address": address, "node": node, "template": template})
        for record in unreachable(0, 10, 20)
    )
    [finding] = results_of(broker_unreachable.RULE, job(incidents=records))
    assert finding.cause == ("wrong-advertised-listeners" if wrong else "kafka-timeout")


def reset(second: int, **text: str) -> Incident:
    return Incident(
        kind="offset-reset",
        time_us=BEGIN + second * SECOND,
        text={"partition": "orders-1"} | text,
        ref=Ref(0, second),
    )


def test_a_reset_position_counts_the_lost_records() -> None:
    known = job(incidents=(reset(0, to="0"), reset(50, offset="1200"), reset(51, to="4200")))
    [finding] = results_of(deleted_records.RULE, known)
    assert finding.title.startswith("Kafka deleted 3 000 records of 1 partition")
    assert (finding.severity, finding.state) == (Severity.CRITICAL, State.RECOVERED)
    assert results_of(deleted_records.RULE, job(incidents=(reset(0, to="0"),))) == []


def record(kind: str, second: int, cause: str | None = None, **text: str) -> Incident:
    return Incident(
        kind=kind, time_us=BEGIN + second * SECOND, cause=cause, text=text, ref=Ref(0, second)
    )


def test_a_slot_that_is_created_after_a_restore_was_gone() -> None:
    first, part = (
        record("slot-created", 0, slot="orders"),
        record("slot-created", 90, slot="orders_1"),
    )
    again = record("slot-created", 91, slot="orders")
    restored = record("restored", 80)
    [finding] = results_of(recreated_slot.RULE, job(incidents=(first, part, restored, again)))
    assert (finding.cause, finding.count) == ("log-position-lost", 1)
    for ordinary in ((first, part), (first, again), (first, part, restored)):
        assert results_of(recreated_slot.RULE, job(incidents=ordinary)) == []


DEADLOCK = "org.postgresql.util.PSQLException: ERROR: deadlock detected"
LOCK = (
    "java.sql.BatchUpdateException: (conn=5) Lock wait timeout exceeded; try restarting transaction"
)
SLOT = 'org.postgresql.util.PSQLException: ERROR: replication slot "orders" is active for PID 7'


@pytest.mark.parametrize(
    ("cause", "code", "word"),
    [
        (DEADLOCK, "IO204", "database-deadlock"),
        (SLOT, "IO204", "slot-in-use"),
        (LOCK, "IO201", "database-lock"),
        ("java.lang.IllegalStateException: no", None, None),
    ],
)
def test_repeatedly_rejected_connections_to_a_database_name_their_cause(
    cause: str, code: str | None, word: str | None
) -> None:
    known = job(incidents=(record("refused", 250, cause), record("refused", 290, cause)))
    found = [
        (rule.code, finding.cause, finding.state)
        for rule in (refused_requests.RULE, database_lock.RULE)
        for finding in results_of(rule, known)
    ]
    assert found == ([] if code is None else [(code, word, State.ONGOING)])
    assert results_of(refused_requests.RULE, job(incidents=(record("refused", 0, cause),))) == []


def test_a_source_that_cannot_start_to_read_its_slot_probably_shares_it() -> None:
    records = tuple(
        record("refused", second, template="replication-refused") for second in (0, 10, 20)
    )
    [finding] = results_of(refused_requests.RULE, job(incidents=records))
    assert (finding.cause, finding.confidence) == ("slot-in-use", Confidence.MEDIUM)
    assert finding.title.startswith("PostgreSQL rejects 3 requests of the job")


@pytest.mark.parametrize(
    ("error", "count"), [("NOT_ENOUGH_REPLICAS", 1), ("NOT_LEADER_OR_FOLLOWER", 0)]
)
def test_rejected_records_are_reported_if_replicas_are_missing(error: str, count: int) -> None:
    records = tuple(
        record("produce-refused", second, error=error, partition="priced-0", records="40")
        for second in (0, 10, 20)
    )
    findings = results_of(refused_records.RULE, job(incidents=records))
    assert [f.title for f in findings] == [
        "Kafka rejects records for topic priced: too few replicas are in sync"
    ] * count


@pytest.mark.parametrize(
    ("gauges", "cause"),
    [
        ({"request_ms": 900.0}, "slow-kafka"),
        ({"request_ms": 900.0, "throttled_ms": 700.0}, "kafka-quota"),
        ({"buffer_free": 0.0, "buffer_total": 32e6}, "slow-kafka"),
        ({"request_ms": 20.0, "throttled_ms": 0.0}, "slow-operator"),
    ],
)
def test_a_sink_that_waits_for_its_broker_is_not_blamed(
    gauges: dict[str, float], cause: str
) -> None:
    queues = Queues()
    for task, _ in CHAIN[:-1]:
        queues.set_metrics(task, busy=50.0, idle=50.0, back_pressured=900.0)
    values = {"busy": 980.0, "idle": 20.0, "input_queue": 9.0} | gauges
    queues.set_metrics(CHAIN[-1][0], None, None, **values)
    [culprit] = {finding.cause for finding in findings(queues.job()).values() if finding.why}
    assert culprit == cause


@pytest.mark.parametrize(
    ("pending", "fetch_ms", "cause"),
    [(0.0, 501.0, "open-transaction"), (9000.0, 501.0, "slow-kafka"), (0.0, 140.0, "slow-kafka")],
)
def test_a_lag_that_the_client_does_not_see_is_an_open_transaction(
    pending: float, fetch_ms: float, cause: str
) -> None:
    queues = Queues()
    gauges = {"pending": pending, "fetch_ms": fetch_ms}
    queues.set_metrics(CHAIN[0][0], None, None, busy=50.0, idle=950.0, records_out=2000.0, **gauges)
    known = replace(queues.job(), neighbours=lags([1000, 60_000, 150_000, 250_000]))
    [finding] = results_of(consumer_lag.RULE, known)
    assert finding.cause == cause and finding.subject.kind == "service"


@pytest.mark.parametrize("uncommitted", [0.0, 300.0])
def test_a_source_that_no_longer_gets_responses_falls_behind_its_group(uncommitted: float) -> None:
    queues = Queues(minutes=3)
    source = CHAIN[0][0]
    queues.set_metrics(source, None, None, busy=5.0, idle=995.0, pending=0.0, fetch_ms=6000.0)
    for minute in range(3):
        queues.set_metrics(source, None, [minute], records_out=30_000.0 * (minute < 2))
    points = [
        FlowPoint(
            queues.at(tick / 6),
            queues.at(tick / 6),
            10_000.0 if tick < 12 else uncommitted,
            Ref(0, tick),
        )
        for tick in range(18)
    ]
    queues.flows = (Flow(task=source, operator=None, name="numRecordsOut", points=tuple(points)),)
    committed = [60_000, 63_000, 64_000, 64_000, 64_000]
    # The source reads until 2:00. No window begins in the second half of these outputs.
    positions = tuple(
        lag._replace(
            row=replace(lag.row, time_us=queues.at(1.5 + 0.35 * n), committed=committed[n])
        )
        for n, lag in enumerate(lags([2000, 9000, 30_000, 60_000, 90_000]).lags)
    )
    known = replace(queues.job(), neighbours=Neighbours(lags=positions))
    [finding] = results_of(consumer_lag.RULE, known)
    assert (finding.cause, finding.subject.kind) == ("slow-kafka", "service")


def paused_job(
    *,
    paused_from: int = 2,
    output_at: float | None = 4.9,
    waiting: int = 30_000,
    pending: float = 0.0,
    fetch_ms: float = 501.0,
    committed_at: float = 4.0,
    earlier_pause: int | None = None,
) -> JobQueues:
    """Return a job of five minutes whose source stops reading, and a single output of Kafka's tool.

    Args:
        paused_from: the first minute without a record.
        output_at: the minute of the output; None if it has no time.
        waiting: the lag of the group.
        pending: the number of waiting records that the client reports.
        fetch_ms: the time of a fetch.
        committed_at: the minute in which a checkpoint completes.
        earlier_pause: another minute without a record.
    """
    queues = Queues()
    source = CHAIN[0][0]
    queues.set_metrics(source, None, None, busy=5.0, idle=995.0, pending=pending, fetch_ms=fetch_ms)
    reads = [minute < paused_from and minute != earlier_pause for minute in range(5)]
    for minute in range(5):
        queues.set_metrics(source, None, [minute], records_out=6000.0 * reads[minute])
    points = [
        FlowPoint(queues.at(tick / 6), queues.at(tick / 6), 2000.0 * reads[tick // 6], Ref(0, tick))
        for tick in range(30)
    ]
    queues.flows = (Flow(task=source, operator=None, name="numRecordsOut", points=tuple(points)),)
    checkpoint = Checkpoint(
        job=queues.key,
        run=1,
        id=7,
        status=Status.COMPLETED,
        type="checkpoint",
        ended_us=queues.at(committed_at),
    )
    output_us = None if output_at is None else queues.at(output_at)
    [lag] = lags([waiting]).lags
    lag = lag._replace(row=replace(lag.row, time_us=output_us))
    known = queues.job()
    return replace(
        known,
        job=replace(known.job, checkpoints=(checkpoint,)),
        neighbours=Neighbours(lags=(lag,)),
    )


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (paused_job(), True),
        (paused_job(paused_from=0, output_at=None), True),
        (paused_job(output_at=None), False),  # the output may be older than the pause
        (paused_job(output_at=2.5), False),  # a shorter pause is ordinary
        (paused_job(output_at=1.5), False),
        (paused_job(output_at=8.0), False),  # the source may have read since
        (paused_job(paused_from=5), False),
        (paused_job(waiting=90), False),  # the markers of transactions
        (paused_job(waiting=300), False),  # two seconds of reading
        (paused_job(pending=9000.0), False),
        (paused_job(fetch_ms=140.0), False),
        (paused_job(committed_at=1.0), False),  # the lag contains what was read since
        (paused_job(paused_from=3, earlier_pause=1), False),  # a producer that commits rarely
    ],
)
def test_one_output_shows_records_that_the_client_does_not_see(
    known: JobQueues, found: bool
) -> None:
    results = results_of(consumer_lag.RULE, known)
    assert [(f.cause, f.subject.kind) for f in results] == [("open-transaction", "service")] * found
    flow = flow_of(known)
    assert flow is not None and (flow.side == "source") is found
    assert "open transaction" in flow.text or not found


@pytest.mark.parametrize(
    ("size", "records", "cause"),
    [
        (3800.0, 7.0, "small-fetches"),
        (300_000.0, 600.0, "slow-kafka"),
        (3800.0, 5000.0, "slow-kafka"),  # the next fetch reads all
    ],
)
def test_fetches_that_return_few_records(size: float, records: float, cause: str) -> None:
    queues = Queues()
    gauges = {"pending": 9000.0, "fetch_ms": 75.0, "fetch_bytes": size, "fetch_records": records}
    queues.set_metrics(CHAIN[0][0], None, None, busy=50.0, idle=950.0, records_out=2000.0, **gauges)
    known = replace(queues.job(), neighbours=lags([1000, 60_000, 150_000, 250_000]))
    [finding] = results_of(consumer_lag.RULE, known)
    assert finding.cause == cause
    assert finding.subject.kind == ("service" if cause == "slow-kafka" else "task")


@pytest.mark.parametrize(
    ("per_round", "severity"),
    [
        ([90_000, 2000, 3000, 2500], Severity.INFO),
        ([2000, 20_000, 40_000, 60_000], Severity.WARNING),
        ([90_000, 20_000, 30_000, 25_000], Severity.WARNING),  # 25 s of reading
    ],
)
def test_back_pressure_of_a_job_that_keeps_up_is_information(
    per_round: list[int], severity: Severity
) -> None:
    queues = Queues()
    queues.set_metrics(CHAIN[0][0], busy=50.0, idle=350.0, back_pressured=600.0)
    queues.set_metrics(CHAIN[1][0], busy=850.0, idle=150.0, input_queue=9.0)
    known = replace(queues.job(), neighbours=lags(per_round))
    assert findings(known)["BP102"].severity == severity


def test_outages_are_split_by_pauses() -> None:
    found = spells_of_records(unreachable(0, 10, 100), 30)
    assert [len(each) for each in found] == [2, 1]
    assert server_name("10.0.0.1:9092") == "10.0.0.1:9092"


@pytest.mark.parametrize(("ended", "owners"), [((), 0), ((0,), 1), ((0, 1), 0)])
def test_neighbours_of_several_jobs_belong_to_the_only_one_that_runs(
    ended: tuple[int, ...], owners: int
) -> None:
    keys = [JobKey("", "a" * 32), JobKey("", "b" * 32)]
    jobs = tuple(
        replace(
            UNKNOWN_JOB,
            key=key,
            incidents=(Incident(kind="cancelled", time_us=BEGIN, job=key, ref=Ref(0, 0)),)
            if number in ended
            else (),
        )
        for number, key in enumerate(keys)
    )
    found = assemble_queues(
        [],
        ClusterFacts(jobs=jobs, processes=()),
        window_us=60 * SECOND,
        neighbours=lags([1000, 6000]),
    )
    assert [j.job.key for j in found.jobs if not j.neighbours.empty] == keys[1:] * owners


def test_commits_that_fail_together_are_one_failure() -> None:
    """They waited while the source did not poll."""
    records = tuple(
        Incident(kind="commit-failed", time_us=BEGIN + n, checkpoint=n, ref=Ref(0, n))
        for n in range(15)
    )
    known = job(lags([1000, 6000, 11_000, 16_000]), records)
    assert results_of(failed_commits.RULE, known) == []


@pytest.mark.parametrize(("blocked_from", "severity"), [(3, Severity.WARNING), (9, Severity.INFO)])
def test_the_backlog_of_a_source_that_waits_at_the_end_is_unknown(
    blocked_from: int, severity: Severity
) -> None:
    queues = Queues(minutes=6)
    source, task = CHAIN[0][0], CHAIN[1][0]
    queues.set_metrics(source, pending=0.0, records_out=9000.0, back_pressured=600.0, idle=400.0)
    queues.set_metrics(source, None, range(blocked_from, 6), back_pressured=1000.0, idle=0.0)
    queues.set_metrics(task, busy=950.0, idle=50.0, input_queue=9.0, in_pool=1.0)
    assert findings(queues.job())["BP102"].severity == severity
