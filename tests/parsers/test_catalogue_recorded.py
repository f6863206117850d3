"""Checks that flowdiag recognizes every line of a checkpoint class in every recorded log."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from flowdiag.parsers.catalogue import load_catalogue
from tests.archives import unpacked

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings" / "flink"
VERSIONS = sorted(path.name for path in RECORDINGS.glob("[0-9]*")) if RECORDINGS.exists() else []
CATALOGUE = load_catalogue()
RECORD = re.compile(r"\S+ \S+ +(?P<level>[A-Z]+) +(?P<logger>\S+) +(?:\[\] )?- (?P<message>.*)")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_line_of_checkpoint_classes_is_recognised(version: str) -> None:
    unknown: list[str] = []
    known: Counter[str] = Counter()
    folders = [unpacked(path.parent) for path in (RECORDINGS / version).glob("*/truth.json")]
    for path in sorted(path for folder in folders for path in folder.glob("logs/*")):
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if "heckpoint" not in line and "Barrier" not in line:
                    continue
                record = RECORD.match(line)
                if record is None:
                    continue
                if record["logger"].rpartition(".")[2] not in CATALOGUE.drift_loggers:
                    continue
                found = CATALOGUE.recognize(record["message"], begin=0)
                if found is None:
                    unknown.append(line)
                else:
                    known[found.template.id] += 1
                    assert record["level"] in found.template.levels
    assert not unknown
    if known:
        # A plain text search gives the minimum.
        assert known["checkpoint-triggered"] > 0
