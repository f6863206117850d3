"""Checks of every rule of every topic: published limits and votes, and causes as data."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowdiag import analyses
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.explanations import tables
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.model.finding import Rank
from flowdiag.analyses.model.rule import Limits, Rule, sections
from flowdiag.analyses.queues.facts import QueueFacts
from flowdiag.analyses.rate.assessment.assess import assess
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.startup.assemble import assemble_startup
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import all_rules, own_rules_of, topic

HOME = Path(analyses.__file__).parent
RULES = all_rules()
TOPICS = tuple(ENGINES)

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.name}")


def module_of(rule: Rule) -> ModuleType:
    """Return the path of a rule's module."""
    return sys.modules[rule.judge.__module__]


@cache
def tree_of(module: ModuleType) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(inspect.getsource(module))


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Return the calls of these functions, by name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            yield node


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument, or None."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def choices(value: ast.expr | None) -> Iterator[ast.expr]:
    """Yield the possible values of an expression: the branches of a condition, or itself."""
    if isinstance(value, ast.IfExp):
        yield from choices(value.body)
        yield from choices(value.orelse)
    elif isinstance(value, ast.BoolOp):
        for part in value.values:
            yield from choices(part)
    elif value is not None:
        yield value


def literals(value: ast.expr | None) -> Iterator[Any]:
    """Yield the literals among the choices of an expression, without None."""
    for choice in choices(value):
        try:
            found = ast.literal_eval(choice)
        except ValueError:
            continue
        if found is not None:
            yield found


def test_every_rule_file_is_registered_under_its_name() -> None:
    files = {
        path
        for folder in (*TOPICS, "flink")  # rules that topics of Flink share
        for path in (HOME / folder / "rules").glob("*.py")
        if path.name != "__init__.py"
    }
    listed = {Path(inspect.getfile(module_of(rule))): rule.name for rule in RULES}
    assert files == set(listed)
    assert {path.stem.replace("_", "-") for path in listed} == set(listed.values())
    assert len(listed) == len(RULES)


# --- texts ---------------------------------------------------------------------------------------


def test_every_text_of_a_rule_is_used_and_every_used_one_exists() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in HOME.rglob("*.py"))
    used = set(re.findall(r'"([A-Z]{2}\d{3}\.[a-z][a-z0-9-]+)"', sources))
    assert used == {f"{code}.{name}" for code, table in tables().items() for name in table}
    assert set(tables()) <= {rule.code for rule in RULES}


# --- numbers -------------------------------------------------------------------------------------


def fields_read(tree: ast.AST, name: str) -> set[str]:
    """Return the fields that code reads from a variable of this name."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    }


def imported(module: ModuleType, name: str) -> Any:
    """Return the object that a module imports under a name; None if it defines the object."""
    found = getattr(module, name, None)
    return found if getattr(found, "__module__", module.__name__) != module.__name__ else None


def read_elsewhere(module: ModuleType) -> set[str]:
    """Return the limits that shared functions read, if a rule passes its limits to them."""
    found: set[str] = set()
    for node in ast.walk(tree_of(module)):
        if not isinstance(node, ast.Call):
            continue
        handed = [*node.args, *(word.value for word in node.keywords)]
        if not any(isinstance(value, ast.Name) and value.id == "limits" for value in handed):
            continue
        shared = None
        if isinstance(node.func, ast.Name):
            shared = imported(module, node.func.id)
        elif isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
            home = getattr(module, node.func.value.id, None)
            shared = getattr(home, node.func.attr, None)
        if shared is not None:
            where = importlib.import_module(shared.__module__)
            found |= fields_read(tree_of(where), "limits")
    return found


@each_rule
def test_every_limit_is_read_by_its_rule(rule: Rule) -> None:
    if rule.limits is Limits:
        return
    module = module_of(rule)
    registered = getattr(rule.judge, "registry", {}).values()  # by topics that share the rule
    modules = {module, *(sys.modules[judge.__module__] for judge in registered)}
    read = {name for m in modules for name in fields_read(tree_of(m), "limits") | read_elsewhere(m)}
    unread = [f.name for f in fields(rule.limits) if f.name not in read]  # type: ignore[arg-type]
    assert not unread, f"published and never read: {unread}"


@each_rule
def test_every_limit_is_named_on_its_page(rule: Rule) -> None:
    text = sections(rule.page).get("How it decides", "")
    unnamed = [limit.name for limit in rule.thresholds if f"`{limit.name}`" not in text]
    assert not unnamed, f"not named: {unnamed}"


# --- votes ---------------------------------------------------------------------------------------


def votes_of(tree: ast.AST) -> Iterator[tuple[str, list[int]]]:
    """Return the votes that a rule casts itself: the signal, and its weights."""
    for call in calls(tree, "Vote"):
        weights = [*literals(keyword_value(call, "weight"))]
        for signal in literals(keyword_value(call, "signal")):
            yield signal, weights
    for call in calls(tree, "votes_for"):
        for table in choices(call.args[0]):
            if isinstance(table, ast.Dict):
                for key in table.keys:
                    yield from ((signal, []) for signal in literals(key))


@each_rule
def test_every_vote_is_published_with_its_weight(rule: Rule) -> None:
    table = {signal.name: signal.weight for signal in rule.signals}
    wrong = [
        (signal, weights)
        for signal, weights in votes_of(tree_of(module_of(rule)))
        if signal not in table or any(weight != table[signal] for weight in weights)
    ]
    assert not wrong, f"not in the voting table, or with another weight: {wrong}"


# --- causes --------------------------------------------------------------------------------------


@each_rule
def test_every_cause_is_declared_and_known(rule: Rule) -> None:
    unknown = [word for word in rule.causes if word not in CAUSES]
    assert not unknown, f"not in CAUSES: {unknown}"
    tree = tree_of(module_of(rule))
    texts = {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for word in literals(keyword_value(node, "cause"))
    }
    assert texts <= set(rule.causes), f"not declared: {sorted(texts - set(rule.causes))}"


@each_rule
def test_every_remedy_is_known(rule: Rule) -> None:
    for call in calls(tree_of(module_of(rule)), "remedies"):
        for cause in literals(call.args[0]):
            known = CAUSES[cause].remedies or {}
            named = [name for value in call.args[2:] for name in literals(value)]
            assert known, f"{cause} has no remedies"
            assert set(named) <= set(known), f"{cause} has no {sorted(set(named) - set(known))}"


# --- evidence and ranks --------------------------------------------------------------------------


def is_cut(value: ast.expr, assigned: dict[str, list[ast.expr]], depth: int = 3) -> bool:
    """Return whether an expression omits items of a list: a slice, or `sample_ends`."""
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            rest = node.slice.upper is None and not isinstance(node.slice.lower, ast.UnaryOp)
            if not rest:
                return True
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "sample_ends"
        ):
            return True
        before = assigned.get(node.id, []) if isinstance(node, ast.Name) and depth else []
        if any(is_cut(value, assigned, depth - 1) for value in before):
            return True
    return False


def assigned_in(function: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Map the names in a function to the expressions assigned to them."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
    return found


def cuts_of(tree: ast.AST) -> list[str]:
    """List the places that truncate evidence without stating the total."""
    return [
        f"line {evidence.lineno}: {ast.unparse(evidence)}"
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and keyword_value(node, "evidence_total") is None
        and (evidence := keyword_value(node, "evidence")) is not None
        and is_cut(evidence, assigned_in(function))
    ]


def test_truncated_evidence_is_detected_through_variables() -> None:
    texts = """
def judge(job, limits):
    few = sorted(job.late)[:10]
    cited = cite(few)
    yield job_finding(job, evidence=cited)
    yield job_finding(job, evidence=sample_ends(ends(job.late)))
    yield job_finding(job, evidence=cited, evidence_total=len(job.late))
    yield job_finding(job, evidence=cite([job.first, *job.late[1:]]))
"""
    assert cuts_of(ast.parse(texts)) == ["line 5: cited", "line 6: sample_ends(ends(job.late))"]


@each_rule
def test_no_finding_truncates_its_evidence_without_a_total(rule: Rule) -> None:
    cut = cuts_of(tree_of(module_of(rule)))
    assert not cut, f"cut, and not counted: {cut}"


@each_rule
def test_ranks_have_names(rule: Rule) -> None:
    tree = tree_of(module_of(rule))
    calculated = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp) and "Rank." in ast.unparse(node)
    ]
    bare = [
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for value in literals(keyword_value(node, "rank"))
    ]
    assert not [*calculated, *bare], f"without a name of {Rank.__name__}: {[*calculated, *bare]}"


# --- rooms ---------------------------------------------------------------------------------------


@each_rule
def test_no_rule_imports_another_topic(rule: Rule) -> None:
    module = module_of(rule)
    own = module.__name__.split(".")[2]
    foreign = [
        name
        for node in ast.walk(tree_of(module))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if name.split(".")[:2] == ["flowdiag", "analyses"]
        and len(name.split(".")) > 2
        and name.split(".")[2] in set(TOPICS) - {own}
    ]
    assert not foreign, f"of another topic: {foreign}"


@pytest.mark.parametrize("name", ENGINES)
def test_every_need_is_known_and_an_empty_input_meets_none(name: str) -> None:
    own = topic(name)
    needs = {rule.needs for rule in own_rules_of(name) if rule.needs}
    assert needs <= own.required.keys()
    nothing: Any = {
        "checkpoints": ClusterFacts(jobs=(), processes=()),
        "startup": assemble_startup([], ClusterFacts(jobs=(), processes=())),
        "rate": assess(RateFacts(applications=())),
        "memory": MemoryFacts(processes=()),
        "queues": QueueFacts(common=ClusterFacts(jobs=(), processes=()), jobs=()),
    }
    for rule in own_rules_of(name):
        if rule.needs:
            assert own.why_not_assessed(rule, nothing[name])


def test_undated_lines_clear_no_rule_about_failures() -> None:
    """Four lines of a stack trace do not show which other failures happened."""
    facts = ClusterFacts(jobs=(), processes=())
    rules = [rule for rule in own_rules_of("checkpoints") if rule.needs == "dated-records"]
    reasons = {topic("checkpoints").why_not_assessed(rule, facts) for rule in rules}
    assert len(rules) > 8 and reasons == {"the input has no log records with times"}
