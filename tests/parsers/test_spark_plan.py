"""The properties of a query's plan in an event log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.spark.plan import EXECUTION_START, fields_of, plan_rows

WINDOW = """\
== Physical Plan ==
StateStoreSave (11)
+- EventTimeWatermark (3)

(3) EventTimeWatermark
Input [1]: [sent_at#2]
Arguments: 3f40ce4c-a33c-4b51-b7fa-2d22636de996, sent_at#2: timestamp, 4 seconds

(5) Project [codegen id : 2]
Output [1]: [named_struct(start, knownnullable(precisetimestampconversion(((precisetimestampconversion(sent_at#2-T4000ms, \
TimestampType, LongType) - CASE WHEN (x < 0) THEN 1 ELSE (y % 9000000) END) - 0), LongType, TimestampType)), end, \
knownnullable(precisetimestampconversion(((z - CASE WHEN (x < 0) THEN 1 ELSE (y % 9000000) END) - 0) + 9000000), LongType, \
TimestampType))) AS window#7-T4000ms]

(11) StateStoreSave
Input [2]: [window#7-T4000ms, count#11L]
Arguments: [window#7-T4000ms], state info [ checkpoint = file:/c/state, runId = r, opId = 0, ver = 1, numPartitions = 2] \
stateStoreCkptIds = None, Append, 0, 0, 2
"""
QUERY = "7489636e-dffc-4b43-8f9e-927665a95078"
RUN = "75ee761d-7ce6-4b42-a85a-cee10c76f310"


def started(description: str, plan: str) -> bytes:
    """Return the line of an event log in which an SQL execution starts."""
    event = {
        "Event": EXECUTION_START,
        "executionId": 2,
        "description": description,
        "physicalPlanDescription": plan,
        "sparkPlanInfo": {"nodeName": "x", "simpleString": "y"},
    }
    return json.dumps(event, separators=(",", ":")).encode()


def test_windows_watermarks_and_modes() -> None:
    line = started(f"revenue\nid = {QUERY}\nrunId = {RUN}\nbatch = 1", WINDOW)
    (row,) = plan_rows(line)
    assert row["fields"] == {
        "id": QUERY,
        "run_id": RUN,
        "mode": "append",
        "delay_ms": "4000",
        "window_ms": "9000",
        "column": "sent_at",
    }
    assert plan_rows(started("count at <stdin>:1", WINDOW)) == []


@pytest.mark.parametrize(
    ("node", "names"),
    [
        (
            "BatchEvalPython\nInput [1]: [v#1L]\nArguments: [ask((v#1L % 97))#2], [pythonUDF0#7]",
            "ask",
        ),
        (
            "ArrowEvalPython\nInput [1]: [v#1L]\nArguments: [a(b(v#1L, 2))#2, c(d(v#1L))#3], [u#7, u#8], 200",
            "a c",
        ),
        ("MapInPandas\nInput [1]: [v#1L]\nArguments: enrich(v#1L)#3, [id#4L], false", "enrich"),
        (
            "BatchEvalPython\nInput [1]: [v#1L]\nArguments: [<lambda>(v#1L)#2], [pythonUDF0#7]",
            "<lambda>",
        ),
    ],
)
def test_python_functions(node: str, names: str) -> None:
    assert fields_of(f"(3) {node}\n\n(4) Project [codegen id : 2]\n")["functions"] == names


@given(st.text(max_size=300))
def test_other_text_is_not_a_plan(text: str) -> None:
    fields_of(text)
    fields_of(f"(1) BatchEvalPython\nArguments: {text}")


JOIN = """\
== Physical Plan ==
WriteToDataSourceV2 (12)

(1) MicroBatchScan
Output [2]: [timestamp#3, value#4L]
class org.apache.spark.sql.execution.streaming.sources.RateStreamTable$$anon$1

(6) Scan csv {name}
Output [3]: [id#0L, name#1, pad#2]
Batched: false
Location: InMemoryFileIndex [file:/srv/static]
PushedFilters: [IsNotNull(id)]
"""


@pytest.mark.parametrize(
    ("plan", "tables"),
    [
        (JOIN.format(name=""), "file:/srv/static"),
        (JOIN.format(name="spark_catalog.sales.prices"), "spark_catalog.sales.prices"),
        (JOIN.replace("{name}\nOutput", "sales.prices [codegen id : 1]\nOutput"), "sales.prices"),
        (JOIN.replace("(6) Scan csv {name}", "(6) Scan JDBCRelation(prices) [numPartitions=1] "), "JDBCRelation(prices)"),
        (JOIN.format(name="").replace("InMemoryFileIndex [", "InMemoryFileIndex(3 paths)["), "file:/srv/static"),
        # A source of files, and a cached table.
        (JOIN.format(name="").replace("MicroBatchScan", "Scan json "), None),
        (JOIN.format(name="") + "\n(7) InMemoryRelation\nArguments: [id#0L], StorageLevel(disk, memory, deserialized, 1 replicas)\n", None),
    ],
)  # fmt: skip
def test_tables_that_a_trigger_reads_again(plan: str, tables: str | None) -> None:
    assert fields_of(plan).get("tables") == tables
