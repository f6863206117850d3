"""Proposed values are valid: the engine accepts them, alone and together, and they help."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flowdiag import analyses
from flowdiag.analyses.contract.report import Data, Report
from flowdiag.analyses.flink.helpers import advice_for, shared_remedies
from flowdiag.analyses.flink.job import JobFacts, Setting
from flowdiag.analyses.knowledge.causes import CAUSES, SHARED, Remedy
from flowdiag.analyses.knowledge.conditions import CONDITIONS, Setup
from flowdiag.analyses.memory.facts import MemoryFacts, MemoryProcess
from flowdiag.analyses.model.finding import (
    Action,
    CurrentValue,
    Finding,
    Origin,
    RuleOutcome,
    Severity,
    State,
    Subject,
)
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.model.option_types import TYPES, accepted, write
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.helpers import remedies as spark_remedies
from flowdiag.analyses.report.advice import action_of
from flowdiag.analyses.report.build import ReportBuilder
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.cli.text import words

from .proposals import disagreeing, is_accepted, wrong, wrong_with
from .recordings import is_rare

if TYPE_CHECKING:
    from .measured import Recorded

HOME = Path(analyses.__file__).parent
TOP = Path(__file__).parents[1] / "fixtures" / "recordings"
FLINK_VERSIONS = (None, "1.4.2", "1.9.3", "1.10.3", "1.14.6", "1.17.2", "1.20.5", "2.3.0")
REMEDIES: list[tuple[str, str, Remedy]] = [
    *(("shared", name, remedy) for name, remedy in SHARED.items()),
    *((w, name, r) for w, cause in CAUSES.items() for name, r in (cause.remedies or {}).items()),
]


# --- the grammar ---------------------------------------------------------------------------------


NUMBERS = (0, 1, 3, 0.4, 59_999.6, 2400, 60_000, 163_840, 10_485_761, 604_800_000, 1 << 33, 1e30)


@pytest.mark.parametrize("option", TYPES)
def test_the_engine_accepts_every_written_value(option: str) -> None:
    written = 0
    for value in (True, False, *NUMBERS):
        for version in (None, (1, 9), (1, 14), (1, 20), (2, 3)):
            try:
                text = write(option, value, version)
            except ValueError:
                continue  # the option has no value of this kind, so none is printed
            assert is_accepted(option, text), text
            written += 1
    words_of = TYPES[option].name.split(" | ")
    for word in words_of if len(words_of) > 1 else ():
        assert is_accepted(option, write(option, word, (2, 3)))
        written += 1
    assert written or TYPES[option].name == "class"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("execution.checkpointing.min-pause", "2.4 s"),
        ("execution.checkpointing.timeout", "1 min 30 s"),
        ("taskmanager.memory.network.max", "0.5g"),
        ("taskmanager.memory.network.max", "160 KiB"),
        ("taskmanager.memory.managed.size", "(not set)"),
        ("spark.streaming.blockInterval", "125 ms"),
        ("retention.ms", "7 d"),
        ("restart-strategy.type", "exponential"),
    ],
)
def test_values_that_the_engine_rejects_are_refused(option: str, text: str) -> None:
    assert not is_accepted(option, text)
    assert accepted(option, text) is None
    with pytest.raises(ValueError, match="does not take"):
        write(option, text)


def test_versions_have_their_own_syntax() -> None:
    assert write("heartbeat.timeout", 60_000, (1, 18)) == "60000"
    assert write("heartbeat.timeout", 60_000, (2, 0)) == "1 min"
    assert write("state.backend.fs.memory-threshold", 102_400, (1, 9)) == "102400"


# --- remedies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["heap", "rocksdb", None])
@pytest.mark.parametrize("version", FLINK_VERSIONS)
def test_every_remedy_of_flink_can_be_followed(version: str | None, backend: str | None) -> None:
    setup = Setup(backend=backend)
    for word, _, remedy in REMEDIES:
        unfilled = replace(remedy, text=remedy.text.translate({ord("{"): "", ord("}"): ""}))
        action = advice_for(unfilled, version, setup)
        if action is not None:
            assert not [*wrong_with(word, word, [action_of(action)])]


def test_every_remedy_of_spark_can_be_followed() -> None:
    app = ApplicationFacts(key=JobKey(cluster="", job_id="app"), application="app", name=None)
    for word, name, remedy in REMEDIES:
        if word == "shared":
            continue
        names = "model now cores least part place quota task present cpu package column conversion batches"
        fill: dict[str, Any] = dict.fromkeys(names.split(), "…")
        fill |= {
            each: "…"
            for each in (
                "key",
                "old",
                "why",
                "change",
                "note",
                "gain",
                "method",
                "code",
                "call",
                "task",
                "holder",
                "statement",
            )
        }
        for action in spark_remedies(word, app, name, **fill):
            assert not [*wrong_with(word, word, [action_of(action)])], remedy


def test_remedies_name_existing_conditions_and_commands() -> None:
    for _, _, remedy in REMEDIES:
        assert set(remedy.needs) <= set(CONDITIONS)
        assert remedy.command is None or remedy.command in ENGINES
    assert {cause.checked_by for cause in CAUSES.values()} <= {None, *ENGINES}


def _calls(name: str) -> Iterator[tuple[str, ast.Call]]:
    for path in sorted(HOME.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                yield f"{path.name}:{node.lineno}", node


def test_every_option_has_a_value_or_a_measurement() -> None:
    known = 0
    for place, call in _calls("Action"):
        arguments = {word.arg for word in call.keywords}
        if "option" in arguments:
            assert arguments & {"proposed", "unset", "measure"}, place
            known += 1
    assert known > 5


# --- conditions ----------------------------------------------------------------------------------


def job(version: str = "1.20.5", **settings: str) -> JobFacts:
    key = JobKey(cluster="c", job_id="j")
    arguments = tuple(
        Setting(job=key, key=name.replace("__", "-").replace("_", "."), value=value, source="log")
        for name, value in settings.items()
    )
    return JobFacts(key=key, name="orders", version=version, settings=arguments)


def options_of(actions: tuple[Action, ...]) -> list[str | None]:
    return [action.option for action in actions]


def test_options_that_are_already_set_are_not_advised() -> None:
    assert options_of(shared_remedies(job(), "overtake", "debloat")) == [
        "execution.checkpointing.unaligned.enabled",
        "taskmanager.network.memory.buffer-debloat.enabled",
    ]
    on = job(execution_checkpointing_unaligned="true")
    assert options_of(shared_remedies(on, "overtake", "debloat")) == [
        "taskmanager.network.memory.buffer-debloat.enabled"
    ]


def test_incremental_checkpoints_need_a_fitting_backend() -> None:
    assert shared_remedies(job(state_backend="hashmap"), "incremental") == ()
    (known,) = shared_remedies(job(state_backend="rocksdb"), "incremental")
    (unknown,) = shared_remedies(job(), "incremental")
    assert known.proposed == unknown.proposed == "true"
    assert unknown.text.startswith("If the state backend is RocksDB or ForSt and ")


def test_a_higher_tolerance_is_not_lowered() -> None:
    key = "execution_checkpointing_tolerable__failed__checkpoints"
    assert shared_remedies(job(**{key: "1000"}), "tolerate") == ()
    (action,) = shared_remedies(job(**{key: "0"}), "tolerate")
    assert (action.current, action.proposed) == (CurrentValue("0"), "3")


def test_settings_and_observations_are_distinguished() -> None:
    key = JobKey(cluster="c", job_id="j")
    seen = Setting(job=key, key="observed.timeout_ms", value="8002", source="observed")
    (action,) = shared_remedies(replace(job(), settings=(seen,)), "more-time")
    assert action.current == CurrentValue("8 s", Origin.OBSERVED)
    line = words.action_lines(action_of(action))[1][0]
    assert line.startswith("execution.checkpointing.timeout: now 8 s (observed")


# --- reports -------------------------------------------------------------------------------------


def finding(code: str, *actions: Action, **changes: Any) -> tuple[RuleOutcome, Finding]:
    arguments: dict[str, Any] = {
        "job": JobKey(cluster="c", job_id="j"),
        "severity": Severity.WARNING,
        "state": State.ONGOING,
        "subject": Subject(kind="job", job_id="j"),
        "title": "t",
        "explain": "e",
        "actions": actions,
    }
    found = Finding(**(arguments | changes))
    return RuleOutcome(code=code, name="n", title="t", core=False, findings=(found,)), found


def report(*found: tuple[RuleOutcome, Finding], command: str = "checkpoints") -> Report:
    return ReportBuilder(
        command=command,
        inputs=(),
        outcomes=[outcome for outcome, _ in found],
        names={},
        data=Data(),
        located={},
        assessed=True,
    ).build()


UNALIGNED = "execution.checkpointing.unaligned.enabled"


def overtake(text: str) -> Action:
    return Action(text=text, option=UNALIGNED, proposed=write(UNALIGNED, True))


def test_a_remedy_is_listed_once_and_referenced_elsewhere() -> None:
    made = report(
        finding("CP201", overtake("Let barriers overtake"), rank=10),
        finding("CP203", overtake("Barriers may overtake"), Action(text="Look"), rank=30),
    )
    advice = {x.code: ([a.text for a in x.actions], x.see) for x in made.findings}
    assert advice == {"CP201": (["Let barriers overtake"], []), "CP203": (["Look"], ["CP201"])}
    assert not wrong(made)


def test_the_value_of_the_root_wins() -> None:
    pause = "execution.checkpointing.min-pause"
    made = report(
        finding("CP104", Action(text="a", option=pause, proposed=write(pause, 1500)), rank=30),
        finding("CP201", Action(text="b", option=pause, proposed=write(pause, 2000)), rank=10),
    )
    (action,) = [a for x in made.findings for a in x.actions]
    assert action.proposed == "2 s" and not wrong(made)


def test_the_first_action_is_that_of_the_root_and_names_the_command_that_checks_it() -> None:
    made = report(
        finding("CP101", Action(text="Look at CP201"), rank=30, severity=Severity.CRITICAL),
        finding("CP201", Action(text="Find the hot key"), rank=10, cause="data-skew"),
    )
    first = made.summary.first_action
    assert first is not None and (first.code, first.run) == ("CP201", "flowdiag queues PATH…")
    assert words.first_steps(made) == ["first: Find the hot key"]
    own = report(finding("RT101", Action(text="x"), cause="data-skew"), command="rate")
    assert own.summary.first_action is not None
    assert own.summary.first_action.run == "flowdiag rate PATH…"
    remark = report(finding("CP104", Action(text="x"), severity=Severity.INFO))
    assert remark.summary.first_action is None and words.first_steps(remark) == []


def test_wrong_advice_is_detected() -> None:
    made = report(finding("CP104", overtake("a"), cause="slow-sync-snapshot"))
    (found,) = made.findings
    (action,) = found.actions
    broken: dict[str, dict[str, Any]] = {
        "is refused": {"option": "execution.checkpointing.min-pause", "proposed": "2.4 s"},
        "of a value": {"proposed": None},
        "is true already": {"current": "true"},
        "in braces": {"text": "Give {task} more"},
        "does not help": {},
    }
    for words_of, changes in broken.items():
        bad = msgspec.structs.replace(action, **changes)
        seen = wrong(msgspec.structs.replace(made, findings=[_with(found, bad)]))
        assert any(words_of in problem for problem in seen), (words_of, seen)


def _with(found: Any, action: Any) -> Any:
    return msgspec.structs.replace(found, actions=[action])


def test_one_fault_has_the_same_remedy_in_every_command() -> None:
    def of(command: str, *actions: Action) -> Report:
        return report(finding("XX100", *actions, cause="data-skew"), command=command)

    mine = of("queues", overtake("Let barriers overtake"))
    assert not disagreeing([mine, of("checkpoints", overtake("Let them overtake"))])
    assert disagreeing([mine, of("checkpoints", Action(text="Look"))])
    assert not disagreeing([mine, of("checkpoints", Action(text="Look", command="queues"))])


def test_options_that_keep_a_taskmanager_from_starting_are_detected() -> None:
    low, high = "taskmanager.memory.network.min", "taskmanager.memory.network.max"
    known = {"taskmanager.memory.process.size": "1g", low: "160k", high: "160k"}
    worker = MemoryProcess(role="taskmanager", version="1.20.5", configured=known)
    facts = MemoryFacts(processes=(worker,))
    torn = Action(text="More", option=low, proposed=write(low, "168k"))
    made = report(finding("MM201", torn), command="memory")
    assert any("no TaskManager starts" in problem for problem in wrong(made, facts))
    assert any("cannot check" in problem for problem in wrong(report(finding("CP301", torn))))


# --- recordings ----------------------------------------------------------------------------------


def _recordings() -> Iterator[Any]:
    few = ("startup/1.20.5/too-few-buffers", "spark/4.3.0/fixed-cost")
    for truth in sorted(TOP.rglob("truth.json")):
        name = str(truth.parent.relative_to(TOP))
        marks = [] if name in few and not is_rare(name) else [pytest.mark.full]
        yield pytest.param(truth.parent, id=name, marks=marks)


@pytest.mark.spark
@pytest.mark.parametrize("folder", [*_recordings()])
def test_the_advice_of_every_recording(folder: Path, recorded: Callable[..., Recorded]) -> None:
    from .archives import unpacked

    engine = "spark" if "spark" in folder.parts else "flink"
    topics = tuple(name for name, each in ENGINES.items() if each == engine)
    measured = recorded(unpacked(folder), topics=topics)
    # `Recorded` checks the advice of each report.
    assert not disagreeing(measured.report(name) for name in topics)
