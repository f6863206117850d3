"""Renders docs/actions.md: the remedies of each cause, by state backend and Flink version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from flowdiag.analyses.flink.helpers import advice_for
from flowdiag.analyses.flink.options import Version
from flowdiag.analyses.knowledge.causes import CAUSES, SHARED, Remedy
from flowdiag.analyses.knowledge.conditions import CONDITIONS, Setup
from flowdiag.analyses.memory.options import KNOWN_VERSIONS as VERSIONS
from flowdiag.analyses.model.finding import Action
from flowdiag.analyses.model.option_types import type_of, write
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import rules_of

_FILLED: Final = re.compile(r"\{\w+\}")
_BACKENDS: Final = {"heap": "heap", "rocksdb": "RocksDB, ForSt"}

_HEAD: Final = """\
# Remedies

Generated from the causes in `analyses/knowledge`. Each remedy is listed for the Flink versions that have its option, and
for the state backends that it helps. A report omits a remedy that is already in place, or that would make things worse. A
value that depends on the job (`…`) comes from the input; otherwise the report names the value to measure first. If no
input names the state backend, the report names the backend that a remedy applies to.
"""


def actions_document() -> str:
    """Render docs/actions.md."""
    flink = ["| cause | backend | Flink | to do | checked by |", "|---|---|---|---|---|"]
    spark = ["| cause | to do |", "|---|---|"]
    for word, cause in CAUSES.items():
        remedies = list(cause.remedies.values())
        engines = _engines(word)
        mine = [remedy for remedy in remedies if remedy.engine != "spark"]
        if "flink" in engines and mine:
            flink += _flink_rows(f"`{word}`", mine, cause.checked_by)
        theirs = [remedy for remedy in remedies if remedy.engine != "flink"]
        if "spark" in engines and theirs:
            spark.append(f"| `{word}` | {_join(map(_spark_action, theirs))} |")
    for remedy in SHARED.values():
        flink += _flink_rows("any", [remedy], None)
    conditions = [f"- {each.words}" for each in CONDITIONS.values()]
    parts = {
        "Flink": flink,
        "Spark": spark,
        "Conditions": ["Some remedies require a condition:", "", *conditions],
    }
    lines = [line for name, part in parts.items() for line in (f"## {name}", "", *part, "")]
    return "\n".join([_HEAD, *lines])


def _engines(word: str) -> set[str]:
    """Return the engines whose rules report a cause."""
    return {
        engine
        for name, engine in ENGINES.items()
        if any(word in rule.causes for rule in rules_of(name))
    }


def _flink_rows(word: str, remedies: list[Remedy], command: str | None) -> Iterator[str]:
    """Yield a row per range of versions with the same remedies. State backends with the same remedies share a row."""
    cells = {
        backend: [(version, _remedies_text(remedies, version, backend)) for version in VERSIONS]
        for backend in _BACKENDS
    }
    alike = len({str(each) for each in cells.values()}) == 1
    for backend, by_version in cells.items():
        if alike and backend != next(iter(cells)):
            continue
        for text, same in groupby(by_version, key=lambda pair: pair[1]):
            versions = [version for version, _ in same]
            if text:
                name = "any" if alike else _BACKENDS[backend]
                checked = f"`flowdiag {command}`" if command else ""
                yield f"| {word} | {name} | {_span(versions)} | {text} | {checked} |"


def _span(versions: list[Version]) -> str:
    first, last = (".".join(map(str, each)) for each in (versions[0], versions[-1]))
    if len(versions) == len(VERSIONS):
        return "any"
    if versions[-1] == VERSIONS[-1]:
        return f"{first} and later"
    if versions[0] == VERSIONS[0]:
        return f"up to {last}"
    return first if first == last else f"{first} to {last}"


def _remedies_text(remedies: list[Remedy], version: Version, backend: str) -> str:
    text = ".".join(map(str, version))
    found = (advice_for(remedy, text, Setup(backend=backend)) for remedy in remedies)
    return _join(_action(action, version) for action in found if action is not None)


def _join(actions: Iterator[str] | map[str]) -> str:
    return "<br>".join(f"{number}. {text}" for number, text in enumerate(actions, 1))


def _action(action: Action, version: Version | None = None) -> str:
    text = _escape(_FILLED.sub("…", action.text))
    if action.option is None:
        return text
    if action.unset:
        return f"{text}: remove `{action.option}`"
    if action.proposed is not None:
        return f"{text}: `{action.option}: {action.proposed}`"
    kind = type_of(action.option, version)
    value = f" ({kind.name})" if kind is not None else ""
    return f"{text}: `{action.option}: …`{value}; measure first: {_escape(action.measure or '')}"


def _spark_action(remedy: Remedy) -> str:
    option, value = remedy.option, remedy.proposed
    return _action(
        Action(
            text=remedy.text,
            option=option,
            proposed=write(option, value) if option is not None and value is not None else None,
            measure=None if value is not None else remedy.measure,
        )
    )


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
