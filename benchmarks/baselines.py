"""Predictors of the culprit of a recording: flowdiag, and common manual methods.

Each takes a folder with the files of a recording and returns a prediction without its id (`benchmarks.score`).
"""

from __future__ import annotations

import atexit
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.inputs import find
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.cli.spark.starter import SparkStarter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = Mapping[str, Any]

_EXPIRED: Final = re.compile(r"Checkpoint \d+ of job \w+ expired before completing")
_LATE: Final = re.compile(r"Received late message for now expired checkpoint attempt .* at (\S+)")
_BUSY: Final = re.compile(r"([\w-]+)\.[^.\s]+\.([^.]+)\.(\d+)\.busyTimeMsPerSecond: ([\d.]+)$")


def _lines(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".json", ".zst", ".gz"):
            with path.open(encoding="utf-8", errors="replace") as file:
                yield from file


def grep_expired(folder: Path) -> Answer:
    """Call a job unhealthy if a checkpoint expired, which is the message that people search for
    first."""
    return {"sick": any(_EXPIRED.search(line) for line in _lines(folder))}


def most_late_messages(folder: Path) -> Answer:
    """Blame the TaskManager with the most late acknowledgements."""
    late = Counter(hit[1] for line in _lines(folder) if (hit := _LATE.search(line)))
    if not late:
        return {"sick": False}
    return {"sick": True, "culprit": {"taskmanager": late.most_common(1)[0][0]}}


def busiest_subtask(folder: Path) -> Answer:
    """Blame the subtask with the highest busy time in metric reports, if it is busy 90% of the time."""
    total: defaultdict[tuple[str, str, int], float] = defaultdict(float)
    samples: Counter[tuple[str, str, int]] = Counter()
    for line in _lines(folder):
        if hit := _BUSY.search(line):
            key = hit[1], hit[2], int(hit[3])
            total[key] += float(hit[4])
            samples[key] += 1
    if not total:
        return {}
    key = max(total, key=lambda each: total[each] / samples[each])
    if total[key] / samples[key] < 900:
        return {"sick": False}
    return {"sick": True, "culprit": {"task": key[1], "subtask_index": key[2]}}


def flowdiag(folder: Path) -> Answer:
    """Run `flowdiag diagnose`, and predict the first culprit of its report."""
    return answer_of(_diagnosed(folder))


def answer_of(report: Report) -> Answer:
    """Convert a report to a prediction, which is empty if the report is inconclusive."""
    summary = report.summary
    verdict = summary.verdict.value
    if verdict == "inconclusive":
        return {}
    subject = summary.culprits[0].subject if summary.culprits else None
    culprit = {
        name: getattr(subject, name)
        for name in ("task", "subtask_index", "taskmanager")
        if getattr(subject, name, None) is not None
    }
    return {"sick": verdict != "healthy", "cause": summary.cause, "culprit": culprit}


def _diagnosed(folder: Path) -> Report:
    topics = tuple(map(topic, ENGINES))
    inputs = find([str(folder)], strict=False)
    return diagnose(topics, inputs, _session, Options(everything=True))


@cache
def _session() -> SparkSession:
    """Return the Spark session that all recordings share until the process ends."""
    starter = SparkStarter.begin()
    atexit.register(starter.close)
    session = starter.session()
    starter.tune(0)
    return session


TOOLS: Final[Mapping[str, Callable[[Path], Answer]]] = {
    "flowdiag": flowdiag,
    "most late messages": most_late_messages,
    "busiest subtask": busiest_subtask,
    "grep for expired": grep_expired,
}
