"""Checks the advice of a report for rejected values, contradictions and repetitions.

The grammars follow the engines' sources and are independent of the product:
`TimeUtils.parseDuration` and `MemorySize.parse` of Flink, `JavaUtils.timeStringAs` and
`byteStringAs` of Spark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from flowdiag.analyses.contract.report import Action, Report
from flowdiag.analyses.memory.advice import derive_with
from flowdiag.analyses.memory.model import MEMORY_KEYS, MemoryOptionError, parse_size
from flowdiag.analyses.topic_names import ENGINES

_FLINK_UNITS: Final = frozenset(
    [
        "d",
        "day",
        "days",
        "h",
        "hour",
        "hours",
        "min",
        "minute",
        "minutes",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
    ]
)


def _flink_duration(text: str) -> bool:
    digits = re.match("[0-9]+", text.strip())
    if digits is None or int(digits[0]) >= 2**63:
        return False
    unit = text.strip()[digits.end() :].strip().lower()
    return not unit or unit in _FLINK_UNITS


def _flink_size(text: str) -> bool:
    try:
        return parse_size(text) >= 0
    except MemoryOptionError:
        return False


def _whole(least: int = 0) -> Callable[[str], bool]:
    return lambda text: text.isdecimal() and least <= int(text) < 2**31


def _long(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) < 2**63


def _boolean(text: str) -> bool:
    return text in ("true", "false")


def _real(text: str) -> bool:
    return float(text) >= 0


def _share(text: str) -> bool:
    return 0 <= float(text) < 1


def _spark_time(text: str) -> bool:
    return re.fullmatch("[0-9]+(us|ms|s|m|min|h|d)?", text) is not None


def _spark_size(text: str) -> bool:
    return re.fullmatch("[1-9][0-9]*(b|kb?|mb?|gb?|tb?|pb?)?", text) is not None


def _words(*words: str) -> Callable[[str], bool]:
    return lambda text: text in words


def _pattern(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


_STRATEGIES: Final = ("none", "fixed-delay", "failure-rate", "exponential-delay")

# The first pattern that matches a key selects the grammar of its engine.
GRAMMARS: Final[tuple[tuple[str, Callable[[str], bool]], ...]] = (
    (r"taskmanager\.memory\..*fraction|.*jvm-overhead\.fraction", _share),
    (r"taskmanager\.network\.memory\.fraction", _share),
    (r".*\.network\.memory\.(buffer-debloat\.enabled)", _boolean),
    (r"taskmanager\.network\.numberOfBuffers|taskmanager\.numberOfTaskSlots", _whole(1)),
    (r"(task|job)manager\.heap\.mb", _whole(1)),
    (r"(task|job)manager\.(memory|heap|network\.memory)\..*", _flink_size),
    (r"taskmanager\.network\.credit-model|cluster\.evenly-spread-out-slots", _boolean),
    (r"taskmanager\.load-balance\.mode", _words("NONE", "SLOTS", "TASKS", "MIN_RESOURCES")),
    (r"execution\.checkpointing\.(interval|timeout|min-pause)", _flink_duration),
    (r"execution\.checkpointing\.tolerable-failed-checkpoints", _whole()),
    (r"execution\.checkpointing\.(unaligned(\.enabled)?|incremental)", _boolean),
    (r"execution\.checkpointing\.checkpoints-after-tasks-finish\.enabled", _boolean),
    (r"execution\.checkpointing\.data-inline-threshold", _flink_size),
    (r"state\.(backend|storage)\.fs\.memory-threshold", _flink_size),
    (r"state\.backend\.(incremental|local-recovery|rocksdb\.memory\.managed)", _boolean),
    (r"state\.backend\.(?:rocksdb|forst)\.(memory\.partitioned-index-filters|use-.*)", _boolean),
    (r"state\.backend\.(?:rocksdb|forst)\..*thread\.num", _whole(1)),
    (r"state\.backend\.(?:rocksdb|forst)\.writebuffer\.size", _flink_size),
    (r"state\.backend\.rocksdb\.manual-compaction\.min-interval", _flink_duration),
    (r"state\.backend(\.type)?", _words("hashmap", "filesystem", "rocksdb", "forst")),
    (
        r"execution\.savepoint\.ignore-unclaimed-state|rest\.flamegraph\.enabled|job\.autoscaler\.[a-z.]+\.enabled|pipeline\.(generic-types|object-reuse)",
        _boolean,
    ),
    (r"restart-strategy(\.type)?", _words(*_STRATEGIES)),
    (r"(akka|pekko)\.ask\.timeout", _flink_duration),
    (r"(akka|pekko)\.framesize", _pattern("[1-9][0-9]*b")),
    (r"heartbeat\.timeout|task\.cancellation\.timeout", _flink_duration),
    (r"CheckpointConfig\.setTolerable.*", _whole()),
    (r"CheckpointConfig\.setFailOn.*", _boolean),
    (r"(CheckpointConfig|StreamExecutionEnvironment)\..*", _long),
    (r"transaction\.timeout\.ms", _whole(1)),
    (r"retention\.ms", _long),
    (r"StreamingContext\(.*", _pattern(r"(Milliseconds|Seconds)\([1-9][0-9]*\)")),
    (r"Trigger\.ProcessingTime\(.*", _pattern("[1-9][0-9]* (milliseconds|seconds)")),
    (r"spark\.executor\.(memory(Overhead)?|pyspark\.memory)", _spark_size),
    (r"spark\.streaming\.blockInterval", _spark_time),
    (r"spark\.streaming\.backpressure\.pid\..*", _real),
    (r"spark\.streaming\.(backpressure\.initialRate|receiver\.maxRate|kafka\.maxRate.*)", _long),
    (r"spark\.sql\.shuffle\.partitions|spark\.streaming\.concurrentJobs", _whole(1)),
    (r"maxFilesPerTrigger|maxOffsetsPerTrigger|minPartitions", _whole(1)),
    (r"spark\.scheduler\.mode", _words("FIFO", "FAIR")),
    (r"spark\.sql\.streaming\.multipleWatermarkPolicy", _words("min", "max")),
    (r"spark\.sql\.streaming\.stateStore\.providerClass", _pattern(r"(\w+\.)+[A-Z]\w+")),
    (
        r"spark\..*\.enabled?|spark\.speculation|spark\..*\.(compactOnCommit|boundedMemoryUsage)",
        _boolean,
    ),
)


def is_accepted(option: str, value: str) -> bool:
    """Return whether the engine accepts the value of an option.

    Raises:
        KeyError: the grammar of the option is unknown here.
    """
    for pattern, accepts in GRAMMARS:
        if re.fullmatch(pattern, option):
            return accepts(value)
    raise KeyError(option)


# Overtaking does not help if barriers do not queue behind data.
_NO_OVERTAKING: Final = ("task-hangs", "slow-sync-snapshot", "slow-async-snapshot")


def wrong(report: Report, facts: Any = None) -> list[str]:
    """Yield the problems with the advice in a report.

    Args:
        facts: the facts of `memory`, whose configuration the proposals must fit; None for another command.
    """
    found = [problem for x in report.findings for problem in wrong_with(x.code, x.cause, x.actions)]
    found += _repeated(report)
    found += _contradicting(report)
    found += _not_starting(report, facts)
    found += _first(report)
    return [f"{report.tool.command}: {problem}" for problem in found]


def wrong_with(code: str, cause: str | None, actions: Iterable[Action]) -> Iterator[str]:
    """Yield the problems with the actions of one finding that need no other finding."""
    for action in actions:
        text = f"{code}: {action.text[:60]}: {action.option}"
        ways = sum([action.proposed is not None, action.unset, action.measure is not None])
        if action.option is not None and ways != 1:
            yield f"{text} has {ways} of a value, a removal, something to measure"
        if action.option is None and (action.proposed is not None or action.together):
            yield f"{text} has a value of nothing"
        if action.proposed is not None and action.proposed == action.current:
            yield f"{text} is {action.current} already"
        for option, value in _values(action):
            if not is_accepted(option, value):
                yield f"{text}: {value!r} is refused"
        if re.search(r"\{\w+\}", action.text):
            yield f"{text}: a name in braces is left"
        if cause in _NO_OVERTAKING and action.option and "unaligned" in action.option:
            yield f"{text} does not help against {cause}"


def _values(action: Action) -> Iterator[tuple[str, str]]:
    if action.option is not None and action.proposed is not None:
        yield action.option, action.proposed
    yield from ((each.option, each.proposed) for each in action.together)


def _repeated(report: Report) -> Iterator[str]:
    texts = Counter((a.text, a.option) for x in report.findings for a in x.actions)
    yield from (f"{text} stands {n} times" for (text, _), n in texts.items() if n > 1)


def _contradicting(report: Report) -> Iterator[str]:
    values: dict[tuple[str | None, str], set[str]] = {}
    for finding in report.findings:
        for action in finding.actions:
            for option, value in _values(action):
                values.setdefault((finding.subject.job_id, option), set()).add(value)
    yield from (f"{key[1]}: {sorted(v)}" for key, v in values.items() if len(v) > 1)


def _not_starting(report: Report, facts: Any) -> Iterator[str]:
    """Yield memory proposals that keep a TaskManager from starting: each alone, then all
    together.
    """
    sets = [
        (finding.subject.taskmanager, dict(_values(action)))
        for finding in report.findings
        for action in finding.actions
        if any(option in MEMORY_KEYS for option, _ in _values(action))
    ]
    if sets and facts is None:
        yield "memory options are proposed by a command that cannot check them"
        return
    together: dict[str, str] = {}
    for _, options in sets:
        together |= options
    workers = [p for p in (facts.processes if facts else ()) if p.role == "taskmanager"]
    for process in workers:
        if process.version is not None and process.version.startswith(("1.8", "1.9")):
            continue  # the arithmetic accepts every size
        mine = [o for name, o in sets if name in (None, process.taskmanager)]
        for options in [*mine, *([together] if mine else [])]:
            sizes = {key: value for key, value in options.items() if key in MEMORY_KEYS}
            ours = any(key.startswith("taskmanager") for key in sizes)
            if ours and derive_with(process, sizes) is None:
                yield f"no TaskManager starts with {options} beside {dict(process.configured)}"


def _first(report: Report) -> Iterator[str]:
    first = report.summary.first_action
    serious = [x for x in report.findings if x.severity != "info"]
    if first is None:
        if any(x.actions for x in serious):
            yield "there are remedies, and none is the first"
        return
    program, command, *_ = first.run.split(" ")
    if program != "flowdiag" or command not in ENGINES:
        yield f"there is no command {first.run}"
    elif ENGINES[command] != ENGINES[report.tool.command]:
        yield f"{first.run} does not read such inputs"
    if not any(first.action in x.actions and x.code == first.code for x in serious):
        yield f"the first action stands at no finding: {first.action.text}"


def disagreeing(reports: Iterable[Report]) -> list[str]:
    """Return the causes for which commands advise different options. A command without options must
    name the command that has them.

    Args:
        reports: the reports of several commands on the same inputs.
    """
    values: dict[str, dict[str, set[tuple[str, str]]]] = {}
    pointing: set[tuple[str, str]] = set()
    for report in reports:
        command = report.tool.command
        for finding in report.findings:
            mine = values.setdefault(finding.cause or "", {}).setdefault(command, set())
            for action in finding.actions:
                mine.update(_values(action))
                if action.command is not None:
                    pointing.add((finding.cause or "", command))
    return [
        f"{cause}: {command} advises {sorted(mine)}, another {sorted(most)}"
        for cause, by_command in values.items()
        if cause
        for most in [max(by_command.values(), key=len)]
        for command, mine in by_command.items()
        if mine != most and (mine or (cause, command) not in pointing)
    ]
