"""Reads the output of the tools of Kafka and PostgreSQL, and of lag exporters."""

from __future__ import annotations

import pytest

from flowdiag.parsers.neighbours.broker_log import read_broker_log
from flowdiag.parsers.neighbours.consumer_groups import read_lags
from flowdiag.parsers.neighbours.kinds import NeighbourKind, neighbour_kind
from flowdiag.parsers.neighbours.replication import read_slots
from flowdiag.parsers.neighbours.sessions import (
    MARIADB,
    read_address,
    read_lock_waits,
    read_sessions,
)
from flowdiag.parsers.neighbours.times import time_of_line

WHEN = 1_795_642_200_000_000
HEAD = "TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID     HOST            CLIENT-ID\n"
OLD = f"{HEAD}orders          3          1234            1300            66              -               -               -\n"
NEW = f"\nConsumer group 'pricing' has no active members.\n\nGROUP           {HEAD}" + OLD.replace(
    HEAD, ""
).replace("orders ", "pricing         orders ")
ACTIVE = NEW.replace("66              -", "66              consumer-pricing-1-7f /10.0.0.7")
EXPORTER = 'kafka_consumergroup_lag{consumergroup="pricing",partition="3",topic="orders"} 66\n'
KMINION = 'kminion_kafka_consumer_group_topic_partition_lag{group_id="pricing",topic_name="orders",partition_id="3"} 66 1795642200000\n'
BURROW = (
    '{"error": false, "status": {"cluster": "local", "group": "pricing", "partitions": [{"topic": "orders",'
    ' "partition": 3, "status": "OK", "start": {"offset": 1200, "timestamp": 1795642190000, "lag": 50},'
    ' "end": {"offset": 1234, "timestamp": 1795642200000, "lag": 66}}]}}'
)
LIST = '[{"groupId": "pricing", "topic": "orders", "partition": 3, "currentOffset": 1234, "logEndOffset": 1300}]'


@pytest.mark.parametrize("text", [OLD, NEW, ACTIVE, EXPORTER, KMINION, BURROW, LIST])
def test_every_form_of_a_lag_is_read(text: str) -> None:
    assert neighbour_kind(text) is NeighbourKind.LAGS
    [row] = read_lags(text)
    assert (row.name, row.lag, row.group) == ("orders-3", 66, None if text is OLD else "pricing")
    assert text.encode()[row.offset :].decode().startswith(text[row.offset :][:7])


def test_a_loop_with_date_gives_the_lag_over_time() -> None:
    text = f"Wed Nov 25 21:30:00 UTC 2026\n{NEW}2026-11-25T21:30:10Z\n{NEW.replace('66', '99')}"
    assert [(row.time_us, row.name, row.lag) for row in read_lags(text)] == [
        (WHEN, "orders-3", 66),
        (WHEN + 10_000_000, "orders-3", 99),
    ]


def test_the_name_of_a_file_dates_its_output() -> None:
    assert read_lags(NEW, "lag-20261125T213000Z.txt")[0].time_us == WHEN


def test_a_partition_without_a_committed_offset_has_no_lag() -> None:
    [row] = read_lags(NEW.replace("1234 ", "-    ").replace(" 66", "  -"))
    assert (row.committed, row.end, row.lag) == (None, 1300, None)


def test_tool_errors_are_not_job_failures() -> None:
    text = "2026-11-25T21:30:00Z\n\nError: Consumer group 'pricing' does not exist.\n"
    assert neighbour_kind(text) is NeighbourKind.LAGS
    assert read_lags(text) == []


SESSIONS = """2026-11-25T21:30:00Z
 pid | usename  |    application_name    | client_addr | state  | wait_event_type | wait_event | blocked_by | query
-----+----------+------------------------+-------------+--------+-----------------+------------+------------+------
 456 | postgres | PostgreSQL JDBC Driver | 10.0.0.7    | active | Lock            | relation   | {455}      | INSERT | 1
 455 | import   | psql                   |             | idle in transaction | Client | ClientRead | {} | LOCK TABLE
(2 rows)
"""
EXPANDED = """-[ RECORD 1 ]----+-----------------------
pid              | 456
application_name | PostgreSQL JDBC Driver
state            | active
wait_event_type  | Lock
query            | INSERT INTO orders
-[ RECORD 2 ]----+-----------------------
pid              | 457
application_name | PostgreSQL JDBC Driver
state            | idle
wait_event_type  | Client
query            | COMMIT
"""
TABLE = "pid,application_name,state,wait_event_type,query\n456,PostgreSQL JDBC Driver,active,Lock,INSERT\n"


def test_sessions_have_their_waits_and_blockers() -> None:
    assert neighbour_kind(SESSIONS) is NeighbourKind.SESSIONS
    waiting, holder = read_sessions(SESSIONS)
    assert (waiting.pid, waiting.waits_for_lock, waiting.blocked_by) == (456, True, (455,))
    assert (waiting.uses_jdbc, waiting.time_us, waiting.query) == (True, WHEN, "INSERT | 1")
    assert (holder.state, holder.waits_for_lock) == ("idle in transaction", False)
    assert SESSIONS[waiting.offset :].startswith(" 456 ")


@pytest.mark.parametrize(("text", "count"), [(EXPANDED, 2), (TABLE, 1)])
def test_other_formats_of_psql_are_read(text: str, count: int) -> None:
    assert neighbour_kind(text) is NeighbourKind.SESSIONS
    found = read_sessions(text)
    assert [session.pid for session in found] == [456, 457][:count]
    assert found[0].waits_for_lock


SLOTS = """2026-11-25T21:30:00Z
 slot_name | active | restart_lsn | confirmed_flush_lsn | wal_status | retained_wal
-----------+--------+-------------+---------------------+------------+--------------
 orders    | t      | 0/19E9B40   | 0/19E9B78           | reserved   | 1159 kB
 old       | f      | 0/10        |                     | extended   | 25 MB
(2 rows)
"""
SLOTS_EXPANDED = """-[ RECORD 1 ]-+---------
slot_name     | old
active        | f
restart_lsn   | 0/10
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (SLOTS, 2),
        (SLOTS_EXPANDED, 1),
        ("slot_name,active,restart_lsn\nold,false,0/10\n", 1),
        ("slot_name,active,restart_lsn,wal_status\nold,f,,lost\n", 1),
    ],
)
def test_replication_slots_are_read(text: str, count: int) -> None:
    assert neighbour_kind(text) is NeighbourKind.SLOTS
    found = read_slots(text)
    assert [(slot.name, slot.active) for slot in found] == [("orders", True), ("old", False)][
        -count:
    ]
    assert found[-1].restart == (None if "lost" in text else 16)
    if count == 2:
        newest, retained = found[0].newest, [slot.retained for slot in found]
        assert (newest, retained) == (0x19E9B78, [1159 * 1024, 25 * 1024 * 1024])
        assert found[0].time_us == WHEN and SLOTS[found[0].offset :].startswith(" orders")


INNODB = """2026-11-25T21:30:00Z
+----+---------+------------------+---------+-----------+---------------------+------------+------------------+
| id | user    | host             | command | trx_state | trx_started         | blocked_by | info             |
+----+---------+------------------+---------+-----------+---------------------+------------+------------------+
|  6 | reports | localhost        | Sleep   | RUNNING   | 2026-11-25 21:29:00 | NULL       | NULL             |
|  7 | pricing | 10.0.0.21:41200  | Query   | LOCK WAIT | 2026-11-25 21:29:50 | 6          | INSERT INTO t    |
|  8 | pricing | 10.0.0.22:41202  | Sleep   | NULL      | NULL                | NULL       | NULL             |
+----+---------+------------------+---------+-----------+---------------------+------------+------------------+
"""


@pytest.mark.parametrize("cell", ['"' + "x" * 200_000, "9" * 6000, "1e999 GB", "\0"])
def test_a_damaged_cell_leaves_the_rest_of_the_row(cell: str) -> None:
    (slot,) = read_slots(f"slot_name,active,restart_lsn,retained\norders,f,0/10,{cell}\n", "x")
    assert (slot.name, slot.restart, slot.retained) == ("orders", 16, None)


def test_sessions_of_mariadb_show_waits_and_open_transactions() -> None:
    assert neighbour_kind(INNODB) is NeighbourKind.SESSIONS
    holder, waiting, idle = read_sessions(INNODB)
    assert (holder.state, holder.client, holder.waits_for_lock) == (
        "idle in transaction",
        None,
        False,
    )
    assert (waiting.pid, waiting.client, waiting.blocked_by) == (7, "10.0.0.21", (6,))
    assert (waiting.waits_for_lock, waiting.time_us, waiting.system) == (True, WHEN, MARIADB)
    assert (idle.state, idle.waits_for_lock) == ("idle", False)


def test_the_log_of_the_server_shows_its_address() -> None:
    line = '2026-11-25 21:30:00.000 UTC [7] LOG:  listening on IPv4 address "{}", port 5432'
    assert read_address(line.format("0.0.0.0")) is None
    assert read_address("\n".join(map(line.format, ("127.0.0.1", "10.0.0.12")))) == "10.0.0.12:5432"


LOG = """2026-11-25 21:30:00.000 UTC [456] postgres@shop LOG:  process 456 still waiting for RowExclusiveLock on relation 16389 of database 16388 after 1000.123 ms
2026-11-25 21:30:00.000 UTC [456] postgres@shop DETAIL:  Process holding the lock: 455. Wait queue: 456.
2026-11-25 21:30:40.000 UTC [456] postgres@shop LOG:  process 456 acquired RowExclusiveLock on relation 16389 of database 16388 after 41000.500 ms
"""


def test_the_log_of_the_server_shows_waits_for_locks() -> None:
    assert neighbour_kind(LOG) is NeighbourKind.DATABASE_LOG
    begin, end = read_lock_waits(LOG)
    assert (begin.pid, begin.holders, begin.ended, begin.time_us) == (456, (455,), False, WHEN)
    assert (end.ended, end.waited_ms) == (True, 41000.5)
    assert end.begin_us is not None and WHEN - end.begin_us == 1_000_500


BROKER = """[2026-11-25 21:29:00,000] INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)
[2026-11-25 21:30:00,000] INFO Terminating process due to signal SIGTERM (org.apache.kafka.common.utils.LoggingSignalHandler)
[2026-11-25 21:30:00,100] INFO [BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN (kafka.server.BrokerServer)
[2026-11-25 21:31:00,000] INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)
"""


def test_the_log_of_a_broker_shows_when_it_was_down() -> None:
    assert neighbour_kind(BROKER) is NeighbourKind.BROKER_LOG
    created = "[2026-11-25 21:31:00,000] INFO Created log for partition orders-1 in /data/orders-1 with properties {} (kafka.log.LogManager)"
    (event,) = read_broker_log(f"ü\n{created}")
    assert (event.kind, event.partition, event.offset) == ("created", "orders-1", 3)
    assert [(event.kind, event.time_us) for event in read_broker_log(BROKER)] == [
        ("started", WHEN - 60_000_000),
        ("stopping", WHEN),
        ("started", WHEN + 60_000_000),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-25 21:30:00,000 INFO  org.apache.flink.A [] - The lag of the topic\n",
        "the topic has 3 partitions and no lag\n",
        "taskmanager.memory.process.size: 4g\n",
        '{"jobs": [{"jid": "a", "state": "RUNNING"}]}',
    ],
)
def test_other_texts_have_no_kind(text: str) -> None:
    assert neighbour_kind(text) is None


@pytest.mark.parametrize(
    "line",
    [
        "2026-11-25T21:30:00Z",
        "=== Wed 25 Nov 2026 09:30:00 PM UTC ===",
        "Wed Nov 25 21:30:00 UTC 2026",
    ],
)
def test_times_above_outputs_are_read(line: str) -> None:
    assert time_of_line(line) == WHEN


TABLE = """2026-11-25T21:30:00Z
+----+------+----------------+------+---------+------+---------------------------------+-----------------------+
| Id | User | Host           | db   | Command | Time | State                           | Info                  |
+----+------+----------------+------+---------+------+---------------------------------+-----------------------+
|  7 | root | localhost      | shop | Sleep   |   90 |                                 | NULL                  |
|  9 | app  | 10.0.0.7:51234 | shop | Execute |   80 | Waiting for table metadata lock | INSERT INTO orders (a |
| 10 | app  | 10.0.0.7:51236 | shop | Sleep   |    1 |                                 | NULL                  |
+----+------+----------------+------+---------+------+---------------------------------+-----------------------+
"""
TABBED = "\n".join(
    line.strip("| ").replace(" | ", "\t") for line in TABLE.splitlines() if not line.startswith("+")
)


@pytest.mark.parametrize("text", [TABLE, TABBED])
def test_a_process_list_shows_waits_for_locks_of_tables(text: str) -> None:
    assert neighbour_kind(text) is NeighbourKind.SESSIONS
    rows = read_sessions(text)
    assert [(s.pid, s.client, s.state, s.waits_for_lock) for s in rows] == [
        (7, None, "idle", False),
        (9, "10.0.0.7", "active", True),
        (10, "10.0.0.7", "idle", False),
    ]
    assert {(s.system, s.time_us) for s in rows} == {(MARIADB, WHEN)}
    assert rows[1].event == "table"
