"""Tests whole logs inside other printed text: Ansible results, and lists as Python prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.envelopes.documents import read_document

JOB = "'orders' (7e8abfb847c12f7b04299ff375ce6fdf)"
MASTER = "org.apache.flink.runtime.jobmaster.JobMaster"
TASK = "enrich (1/4)#0 (5b1c0f2f3a2b4c5d6e7f8091a2b3c4d5)"
LOG = [
    f"2026-11-20 23:10:03,405 INFO  {MASTER} [] - Initializing job {JOB}.",
    f"2026-11-20 23:10:04,001 WARN  {MASTER} [] - {TASK} switched from RUNNING to FAILED with failure cause:",
    'java.lang.IllegalStateException: it\'s "odd" \\ here',
    "\tat com.acme.Enrich.map(Enrich.java:7)",
    f"2026-11-20 23:10:05,000 INFO  {MASTER} [] - Stopping the JobMaster for job {JOB}.",
]
TEXT = "\n".join(LOG)
RECORDS = [LOG[0], "\n".join(LOG[1:4]), LOG[4]]


@pytest.mark.parametrize(
    "value",
    [
        {"changed": True, "cmd": "cat jm.log", "rc": 0, "stdout": TEXT},
        {"changed": True, "stdout": TEXT, "stdout_lines": LOG, "stderr": ""},
        {
            "rc": 0,
            "msg": "",
            "start": "2026-11-20 23:11:00.1",
            "end": "2026-11-20 23:11:00.2",
            "stdout": TEXT,
        },
        {"local": {"pid": 7, "retcode": 0, "stdout": TEXT}},
        [{"item": "jm.log", "ansible_loop_var": "item", "stdout": TEXT}],
    ],
    ids=["text", "text and lines", "with its own times", "below", "list"],
)
def test_printed_command_output_is_a_log(value: object, tmp_path: Path) -> None:
    text = json.dumps(value, indent=4)
    assert [event.text for event in read_document(text.encode()) or ()] == RECORDS
    (tmp_path / "answer.json").write_text(text)
    (source,) = discover([str(tmp_path)]).sources
    assert (source.kind, source.engine) == ("document", "flink")


def test_each_host_of_a_play_is_a_separate_process() -> None:
    hosts = {name: {"stdout": TEXT, "stdout_lines": LOG} for name in ("worker-1", "worker-2")}
    play = {"plays": [{"tasks": [{"task": {"name": "logs"}, "hosts": hosts}]}]}
    events = read_document(json.dumps(play).encode()) or []
    assert [event.process for event in events] == ["worker-1"] * 3 + ["worker-2"] * 3


def test_records_shipped_together_keep_their_process() -> None:
    shipped = [{"pod": f"tm-{number}", "message": f"{LOG[0]}\n{LOG[4]}"} for number in (1, 2)]
    for value in (shipped, {"entries": shipped}, {"batch": shipped}):
        events = read_document(json.dumps(value).encode()) or []
        if events:  # in a list of an unknown name they do not count as a log
            assert {event.process for event in events} == {"tm-1", "tm-2"}


@pytest.mark.parametrize(
    "lines", [LOG, [f"{line}\n" for line in LOG]], ids=["splitlines", "readlines"]
)
def test_a_printed_python_list_is_a_log(lines: list[str], tmp_path: Path) -> None:
    text = f"{lines!r}\n"
    assert [event.text for event in read_document(text.encode()) or ()] == RECORDS
    (tmp_path / "printed.txt").write_text(text)
    (source,) = discover([str(tmp_path)]).sources
    assert (source.kind, source.engine) == ("document", "flink")


@pytest.mark.parametrize(
    "text",
    [
        "['a', 'b'",
        "['a', open('/etc/passwd')]",
        "['" + "[" * 5000 + "']",
        "[" * 5000,
        "['a'] * 10**9 + ['b']",
        "['a', b'c']",
    ],
)
def test_similar_text_is_read_as_text(text: str) -> None:
    assert not any("passwd" in event.text for event in read_document(text.encode()) or ())


@pytest.mark.parametrize(
    "value",
    [
        {"message": "2026-11-20 23:10:03,405 INFO  a.B [] - one\n\tat a.B.c(B.java:1)", "n": 1},
        {"stdout": "total 12\ndrwxr-xr-x 2 root root\n", "stdout_lines": ["total 12"]},
    ],
)
def test_one_record_or_none_is_not_a_log(value: object) -> None:
    assert len(read_document(json.dumps(value).encode()) or ()) <= 1
