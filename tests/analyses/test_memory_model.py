"""The memory model, compared with the output of Flink's own calculators (`fixtures/recordings/memory`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.packing import archive_of, members
from flowdiag.analyses.memory.model import (
    MIB,
    Derivation,
    LegacyMemory,
    human_readable,
    jobmanager_memory,
    parse_size,
    taskmanager_memory,
)
from flowdiag.analyses.memory.options import derive
from flowdiag.parsers.flink.options import flat_options, yaml_options

RECORDED = Path(__file__).parents[2] / "fixtures" / "recordings" / "memory"
ANSWERS = members(archive_of(RECORDED))
CASES: dict[str, dict[str, Any]] = json.loads(ANSWERS["cases.json"])
VERSIONS = sorted(name.removesuffix(".json") for name in ANSWERS if name[0].isdigit())


def _derive(case: dict[str, Any], version: tuple[int, int]) -> Derivation:
    configured: Mapping[str, str] = case.get("options", {})
    if "flat" in case:
        configured = flat_options(case["flat"]).options
    if "yaml" in case:
        configured = yaml_options(case["yaml"]).options
    options = {key: value.strip() for key, value in configured.items()} | case.get("dynamic", {})
    if "container_mb" in case:
        options["taskmanager.heap.size"] = f"{case['container_mb']}m"
        return taskmanager_memory(options, version, container=True)
    if case["process"] == "jobmanager":
        return jobmanager_memory(options, version)
    return taskmanager_memory(options, version)


def _printed(case: dict[str, Any], answer: Derivation, version: tuple[int, int]) -> list[str]:
    """Return the output of Flink's calculator for this derivation."""
    memory = answer.memory
    if isinstance(memory, LegacyMemory):
        return [f"heap={memory.heap // MIB} direct={(memory.direct or 0) // MIB}"]
    prefix = " - " if version < (1, 11) else "{:<5} [] - "
    lines = [prefix.format(remark.level) + remark.text for remark in answer.remarks]
    if memory is None:
        return lines + [f"@@@ error {text}" for text in answer.error]
    if version >= (1, 11):
        lines += [prefix.format("INFO") + line for line in memory.report()]
    return [*lines, f"BASH_JAVA_UTILS_EXEC_RESULT:{memory.jvm_parameters}"]


def _comparable(lines: list[str]) -> list[str]:
    """Drop lines outside the model: names of exceptions, and the file parser."""
    kept = []
    for line in lines:
        if "Error while trying to split key and value" in line or "uses deprecated config" in line:
            continue
        if line.startswith("@@@ error "):
            line = "@@@ error " + line.removeprefix("@@@ error ").split(": ", 1)[1]
        kept.append(line)
    return kept


@pytest.mark.parametrize("version", VERSIONS)
def test_model_prints_what_flink_prints(version: str) -> None:
    major, minor = (int(part) for part in version.split(".")[:2])
    recorded: dict[str, list[str]] = json.loads(ANSWERS[f"{version}.json"])
    wrong = {}
    for name, lines in recorded.items():
        answer = _derive(CASES[name], (major, minor))
        printed = _printed(CASES[name], answer, (major, minor))
        if printed != _comparable(lines):
            wrong[name] = (printed, _comparable(lines))
    assert not wrong


def test_the_recordings_cover_all_versions() -> None:
    assert len(CASES) >= 40
    assert len(VERSIONS) >= 5


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("1kb", 1024), (" 2 m ", 2 * MIB), ("1 GiBiBytes", 1 << 30)]
)
def test_sizes_are_parsed_like_in_flink(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_sizes_are_printed_like_in_flink() -> None:
    assert human_readable(1 << 30) == "1024.000mb (1073741824 bytes)"
    assert human_readable((1 << 30) + 1) == "1.000gb (1073741825 bytes)"


STANDALONE: dict[str, dict[str, Any]] = json.loads(ANSWERS["standalone/1.9.3.json"])


@pytest.mark.parametrize("name", sorted(STANDALONE))
def test_the_start_scripts_of_standalone_taskmanagers(name: str) -> None:
    """`bin/taskmanager.sh` of 1.9 printed these flags, from options and from variables."""
    case = STANDALONE[name]
    derived = derive("taskmanager", case["options"] | case["environment"], "1.9.3", False)
    assert derived is not None
    if case["heap_mb"] is None:
        assert derived.error
        return
    assert isinstance(derived.memory, LegacyMemory)
    assert derived.memory.heap // MIB == case["heap_mb"]
    assert derived.memory.direct is None
