"""Every message of the catalogue against its own sample lines, bare and inside layouts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from flowdiag.parsers.catalogue import FILES, load_catalogue, read_format
from flowdiag.parsers.schema import EVENTS

CATALOGUE = load_catalogue()
SAMPLES = [
    (entry["id"], sample)
    for name in FILES
    for entry in read_format(name)["message"]
    for sample in entry["sample"]
]
LAYOUTS = (
    "{}",
    "2024-03-01 12:00:00,123 INFO  org.apache.flink.runtime.{}      [] - {}",
    "2024-03-01 12:00:00.123 [Source: a -> b (1/2)#0] INFO  o.a.f.r.{}  - {}",
    "jobmanager_1  | 2024-03-01 12:00:00,123 INFO {} - {}",
)


def laid_out(layout: str, logger: str, text: str) -> str:
    return layout.format(text) if layout.count("{}") == 1 else layout.format(logger, text)


def flat(values: dict[str, object]) -> dict[str, object]:
    fields = values.get("fields", {})
    assert isinstance(fields, dict)
    return {name: value for name, value in values.items() if name != "fields"} | fields


def test_every_template_has_a_sample_and_a_unique_id() -> None:
    ids = [template.id for template in CATALOGUE.templates]
    assert len(ids) == len(set(ids))
    assert set(ids) == {template_id for template_id, _ in SAMPLES}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("template_id", "sample"), SAMPLES)
def test_sample(template_id: str, sample: dict[str, Any], layout: str) -> None:
    template = next(t for t in CATALOGUE.templates if t.id == template_id)
    logger = template.loggers[0] if template.loggers else "Some"
    line = laid_out(layout, logger, sample["text"])
    found = CATALOGUE.recognise(line, CATALOGUE.anchors.index(template.anchor))
    assert found is not None, line
    assert found.template.id == template_id
    assert line[found.start :].startswith(sample["text"].split()[0])
    assert flat(found.values) == sample["gives"]
    assert set(found.values) <= set(EVENTS.names)
    assert CATALOGUE.recognise(line) == found


@pytest.mark.parametrize(("template_id", "sample"), SAMPLES)
def test_anchor_survives_json(template_id: str, sample: dict[str, Any]) -> None:
    template = next(t for t in CATALOGUE.templates if t.id == template_id)
    assert re.fullmatch(r"[A-Za-z0-9 .,:_-]{8,}", template.anchor)
    assert template.anchor in sample["text"]
    assert template.anchor in json.dumps(sample["text"])
