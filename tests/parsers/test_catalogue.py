"""Tests every message of the catalogue on its own samples: bare, laid out, damaged and hostile."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.catalogue import (
    FILES,
    Catalogue,
    Recognized,
    Template,
    load_catalogue,
)
from flowdiag.parsers.formats import read_format
from flowdiag.parsers.rows import EVENTS, Event

CATALOGUE = load_catalogue()
ENTRIES: dict[str, dict[str, Any]] = {
    entry["id"]: entry for name in FILES for entry in read_format(name)["message"]
}
every_template = pytest.mark.parametrize(
    "template", CATALOGUE.templates, ids=[template.id for template in CATALOGUE.templates]
)

LAYOUTS = (
    "{message}",
    "2024-03-01 12:00:00,123 INFO  org.apache.flink.runtime.{logger}      [] - {message}",
    "2024-03-01 12:00:00.123 [Source: a -> b (1/2)#0] INFO  o.a.f.r.{logger}  - {message}",
    "jobmanager_1  | 2024-03-01 12:00:00,123 INFO {logger} - {message}",
    "12:00:00,123 WARN  {logger}:123 - {message}",
)
# Free text as Flink's users write it: SQL, arrows, brackets, quotes, other subtasks' numbers.
NAMES = st.text(
    alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=60
).map(str.strip)
UNUSUAL_NAMES = st.sampled_from(
    [
        "Source: Custom Source -> (Map, Sink: Print to Std. Out)",
        "Sink: db.t[3] -> 'x' (1/2) -> Filter (3/4)",
        "GroupAggregate(groupBy=[dt], select=[DATE_FORMAT('2024-01-01 00:00:00,000', 'yyyy') AS d])",
        "a - b (c) switched",
        "INFO - b",
        "x" * 9000,
    ]
)
HEX = st.text("0123456789abcdef", min_size=32, max_size=32)


def anchor_of(template: Template) -> int:
    return CATALOGUE.anchors.index(template.anchor)


def flat(values: dict[str, object]) -> dict[str, object]:
    fields = values.get("fields", {})
    assert isinstance(fields, dict)
    return {name: value for name, value in values.items() if name != "fields"} | fields


def expected(entry: dict[str, Any], sample: dict[str, Any]) -> dict[str, object]:
    return {**sample["gives"], **entry.get("fields", {})}


def test_ids_are_unique() -> None:
    ids = [template.id for template in CATALOGUE.templates]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in ids)


@pytest.mark.parametrize("name", FILES)
def test_loading_without_samples_changes_nothing_else(name: str) -> None:
    whole = read_format(name)
    for entry in whole["message"]:
        del entry["sample"]
    assert read_format(name, samples=False) == whole


@every_template
def test_samples(template: Template) -> None:
    entry = ENTRIES[template.id]
    assert entry["sample"], "a wording without a sample is not known to exist"
    logger = template.loggers[0] if template.loggers else "SomeClass"
    for sample in entry["sample"]:
        message = sample["text"]
        for layout in LAYOUTS:
            line = layout.format(logger=logger, message=message)
            found = CATALOGUE.recognize(line, anchor_of(template))
            assert found is not None, line
            assert found.template.id == template.id
            assert line[found.start :].startswith(message.split()[0]), line
            assert flat(found.values) == expected(entry, sample)
            assert set(found.values) <= set(EVENTS.names)
            assert CATALOGUE.recognize(line) == found, "another message claims this line"


@every_template
def test_a_known_prefix_length_is_respected(template: Template) -> None:
    for sample in ENTRIES[template.id]["sample"]:
        head = "2024-03-01 12:00:00,123 INFO [Sink: a - b (1/2)#0] - "
        found = CATALOGUE.recognize(head + sample["text"], anchor_of(template), begin=len(head))
        assert found is not None
        assert flat(found.values) == expected(ENTRIES[template.id], sample)


@every_template
def test_spaces_may_be_padded_or_collapsed(template: Template) -> None:
    for sample in ENTRIES[template.id]["sample"]:
        text = sample["text"]
        place = text.index(template.anchor)
        before, behind = text[:place], text[place + len(template.anchor) :]
        collapsed = re.sub(r"\s+", " ", before).lstrip() + template.anchor
        collapsed += re.sub(r"\s+", " ", behind).rstrip()
        assert CATALOGUE.recognize(collapsed, anchor_of(template)) is not None, collapsed


# Anchors that are too short to be rare on their own. In 1.5 million recorded lines, this anchor
# occurs only in lines of its message.
SHORT = ("Task: ",)


@every_template
def test_anchor_survives_json(template: Template) -> None:
    assert re.fullmatch(r"[A-Za-z0-9 .,:_-]{8,}", template.anchor) or template.anchor in SHORT
    for sample in ENTRIES[template.id]["sample"]:
        assert template.anchor in sample["text"].rstrip(), "blanks at the end of a line get lost"
        assert template.anchor in json.dumps(sample["text"])


@every_template
def test_hostile_lines_take_linear_time(template: Template) -> None:
    alone = Catalogue((template,), ())
    text = ENTRIES[template.id]["sample"][-1]["text"]
    middle = text.index(template.anchor)
    million = 1_000_000
    lines = [template.anchor * (million // len(template.anchor)), text * (million // len(text))]
    for filler in (" ", "(1/2)", "a ", ") ("):
        much = filler * (million // 4 // len(filler))
        lines += [text[:middle] + much + text[middle:], text + much]
    for line in lines:
        begun = time.process_time()
        alone.recognize(line, 0)
        assert time.process_time() - begun < 1.0, line[:200]


def test_cut_lines_are_never_an_error() -> None:
    for template in CATALOGUE.templates:
        for sample in ENTRIES[template.id]["sample"]:
            for end in range(0, len(sample["text"]), 7):
                CATALOGUE.recognize(sample["text"][:end], anchor_of(template))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_never_an_error(text: str) -> None:
    CATALOGUE.recognize(text)


def task_state(line: str, begin: int | None = None) -> Recognized:
    found = CATALOGUE.recognize(line, CATALOGUE.anchors.index(" switched from "), begin=begin)
    assert found is not None and found.template.id == "task-state"
    return found


@settings(max_examples=80, deadline=None)
@given(NAMES | UNUSUAL_NAMES, st.integers(1, 500), st.integers(0, 30), HEX, HEX)
def test_task_names_contain_any_characters(
    name: str, n: int, attempt: int, graph: str, vertex: str
) -> None:
    if not name or not name.isprintable():
        return
    subtask = n // 2
    four_parts = f"{graph}_{vertex}_{subtask}_{attempt}"
    message = (
        f"{name} ({subtask + 1}/{n})#{attempt} ({four_parts}) switched from RUNNING to FAILED."
    )
    head = "2024-03-01 12:00:00,123 WARN  org.apache.flink.runtime.taskmanager.Task  [] - "
    values = task_state(head + message).values
    assert values["task"] == " ".join(name.split("\x00")).strip()
    assert (values["subtask_index"], values["parallelism"]) == (subtask, n)
    assert (values["attempt_id"], values["vertex_id"]) == (four_parts, vertex)
    assert values["attempt"] == attempt


def test_messages_follow_unknown_layouts() -> None:
    message = "Source: a - b (1/2) (f2862289958b430bc3dc20f39794ca2c) switched from A to B."
    message = message.replace("A to B", "CREATED to SCHEDULED")
    for head in (
        "",
        "   ",
        "INFO  - ",
        "2024-03-01 12:00:00,123 ",
        "2024-03-01T12:00:00.123Z ",
        "18:28:34.704 [main] INFO - ",
        "2024-03-01 12:00:00 INFO ExecutionGraph: ",
        "[INFO] 2024-03-01 12:00:00.123 o.a.f.r.e.ExecutionGraph [] - ",
        "2024-03-01 12:00:00,123 [Source: x - y (1/1)#0] DEBUG o.a.f.runtime.taskmanager.Task [] - ",
    ):
        found = task_state(head + message)
        assert found.values["task"] == "Source: a - b", head
        assert found.start == len(head), head


def test_numbers_out_of_range_are_dropped() -> None:
    line = "Triggering checkpoint 9999999999999999999 @ 5 for job f2862289958b430bc3dc20f39794ca2c."
    found = CATALOGUE.recognize(line)
    assert found is not None
    assert "checkpoint" not in found.values
    assert found.values["epoch_ms"] == 5


def test_the_first_message_of_a_line_counts() -> None:
    job = "f2862289958b430bc3dc20f39794ca2c"
    inner = f"Checkpoint triggering task a (1/2) of job {job} is not being executed at the moment."
    line = f"Failed to trigger checkpoint for job {job} since {inner} Aborting checkpoint."
    found = CATALOGUE.recognize(line)
    assert found is not None
    assert found.template.id == "checkpoint-not-triggered"


def test_another_engine_with_the_same_words_is_not_flink() -> None:
    for line in (
        "ERROR CheckpointCoordinator - Checkpoint expired before completing. Please increase",
        "INFO CheckpointCoordinator - pending checkpoint(3/1@797) completed! cost: 12",
        "WARN CheckpointCoordinator - Triggering checkpoint timeout",
    ):
        assert CATALOGUE.recognize(line) is None


def test_drift_classes_are_anchors() -> None:
    assert set(CATALOGUE.drift_loggers) <= set(CATALOGUE.anchors)
    assert all(len(name) >= 8 for name in CATALOGUE.drift_loggers)
    drift = CATALOGUE.anchors.index("CheckpointCoordinator")
    assert CATALOGUE.recognize("CheckpointCoordinator - something new", drift) is None


def test_events_that_rules_need_have_messages() -> None:
    events = {template.event for template in CATALOGUE.templates}
    assert events >= {
        Event.CHECKPOINT_TRIGGERED,
        Event.CHECKPOINT_COMPLETED,
        Event.CHECKPOINT_EXPIRED,
        Event.CHECKPOINT_DECLINED,
        Event.LATE_ACKNOWLEDGEMENT,
        Event.DEPLOYED,
        Event.TASK_STATE,
        Event.JOB_STATE,
        Event.TASKMANAGER_LOST,
        Event.RESOURCE_FAILURE,
        Event.EXTERNAL_FAILURE,
        Event.TASK_STUCK,
        Event.ABORT_NOTIFIED,
    }
