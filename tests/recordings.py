"""The recordings of real clusters, and the truth recorded with them."""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.parsers.discover import discover

from .archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings" / "flink"


@dataclass(frozen=True)
class Recording:
    """A run of a real cluster.

    Args:
        folder: the folder with `truth.json` and the archive of `logs`, `rest` and `archive`.
        truth: the notes of the job itself, and results of `grep` (see fixtures/README.md).
    """

    folder: Path
    truth: dict[str, Any]

    @property
    def name(self) -> str:
        """Version and scenario, as in `1.20.5/hot-key`."""
        return str(self.folder.relative_to(RECORDINGS))

    @property
    def files(self) -> Path:
        """A folder with `logs`, `rest` and `archive`, unpacked on first use."""
        return unpacked(self.folder)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The truth per job; most recordings have one."""
        if "jobs" in self.truth:
            return list(self.truth["jobs"])
        return [self.truth]

    @property
    def log_files(self) -> list[Path]:
        """Every log, the JobManager's first."""
        return sorted(
            (self.files / "logs").iterdir(), key=lambda p: ("jobmanager" not in p.name, p)
        )


# The same scenarios at versions in between, and variants in logging: for .ci/full.
RARELY = (
    "1.12.5",
    "1.16.3",
    "1.18.1",
    "-debug",
    "async-failure",
    "stop-with",
    "two-jobs",
    "frozen-jobmanager",
    "pressed-",
    "flink/1.14.6",
)


def culprits_of(truth: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the acceptable first culprits of a job: the expected one, and those with the same
    fault at the same time.

    Args:
        truth: the truth of one job, with `periods` and `attempts`.
    """
    first, cause = truth["expected"].get("culprit"), truth["expected"]["cause"]
    spans = [p for p in truth.get("periods", ()) if p["task"] and p["cause"] == cause]
    together = [
        p for p in spans if (p["from"], p["until"]) == (spans[0]["from"], spans[0]["until"])
    ]
    if first is None or first.get("subtask_index") is None or len(together) < 2:
        return [] if first is None else [first]
    hosts = {
        (a["task"], a["subtask_index"]): (a["taskmanager"], a["host"])
        for a in truth["attempts"].values()
    }
    return [
        {
            "task": p["task"],
            "subtask_index": p["subtask_index"],
            "taskmanager": hosts[p["task"], p["subtask_index"]][0],
            "host": hosts[p["task"], p["subtask_index"]][1],
        }
        for p in together
    ]


def is_rare(name: str) -> bool:
    """Return whether only `.ci/full` uses a recording, because it adds little to the default ones."""
    return any(word in name for word in RARELY)


def recordings() -> list[Recording]:
    """Return all recordings, ordered by name."""
    return [
        Recording(folder=path.parent, truth=json.loads(path.read_text()))
        for path in sorted(RECORDINGS.glob("*/*/truth.json"))
    ]


# Typical inputs: the name, the missing parts, and whether the logs keep metric reports.
VARIANTS = (
    "everything",
    "logs",
    "logs without metrics",
    "jobmanager log",
    "taskmanager logs",
    "without the culprit's log",
    "without another taskmanager's log",
    "rest",
    "archive",
)


def variant(recording: Recording, name: str, folder: Path) -> list[str] | None:
    """Lay out the files that a variant of a recording keeps.

    Args:
        name: a name from `VARIANTS`.
        folder: an empty folder for changed logs.

    Returns:
        Paths to diagnose; None if the recording has no such variant.
    """
    logs = recording.log_files
    jobmanagers = [path for path in logs if "jobmanager" in path.name]
    taskmanagers = [path for path in logs if path not in jobmanagers]
    if name == "everything":
        return [str(recording.files / part) for part in ("logs", "rest", "archive")]
    if name in ("rest", "archive"):
        part = recording.files / name
        return [str(part)] if part.is_dir() and any(part.iterdir()) else None
    if name == "logs":
        return [str(path) for path in logs]
    if name == "logs without metrics":
        for path in logs:
            (folder / path.name).write_bytes(REPORTS.sub(b"", path.read_bytes()))
        return [str(folder)]
    if name == "jobmanager log":
        return [str(path) for path in jobmanagers]
    if name == "taskmanager logs":
        return [str(path) for path in taskmanagers]
    culprits = [job["expected"]["culprit"] for job in recording.jobs if job["expected"]["culprit"]]
    if not culprits or not culprits[0].get("host"):
        return None
    label = culprits[0]["host"].split(".")[0]
    mine = [path for path in taskmanagers if label in path.name]
    others = [path for path in taskmanagers if path not in mine]
    if not mine or not others:
        return None
    dropped = mine if name == "without the culprit's log" else others[:1]
    return [str(path) for path in logs if path not in dropped]


REPORTS = re.compile(
    rb"^[^\n]*\n=+ Starting metrics report =+\n.*?=+ Finished metrics report =+\n",
    re.MULTILINE | re.DOTALL,
)


def judged(expected: dict[str, Any], verdict: str, cause: str | None, culprits: list[Any]) -> str:
    """Grade a verdict by the truth of one job: `right`, `inconclusive` or `wrong` (with the confidence).

    A culprit is right if no part of its name contradicts the truth. If the truth names a subtask, the culprit must
    name the task. If it names none, the cause must match. An answer without a culprit is inconclusive, never right or
    wrong.
    """
    if expected["culprit"] is None and expected["verdict"] == "healthy":
        return "right" if not culprits and verdict in ("healthy", "inconclusive") else "wrong"
    if not culprits:
        return "inconclusive"
    first = culprits[0]
    if expected["culprit"] is None:
        return "right" if cause == expected["cause"] else f"wrong ({first.confidence})"
    named = {key: getattr(first.subject, key, None) for key in expected["culprit"]}
    agrees = all(
        value is None
        or expected["culprit"][key] is None
        or value == expected["culprit"][key]
        # REST prints the short form of a host up to 1.20.
        or (key == "host" and str(expected["culprit"][key]).startswith(f"{value}."))
        for key, value in named.items()
    )
    if agrees and any(value is not None for value in named.values()):
        return "right"
    return f"wrong ({first.confidence})"


def _has_fault_of_its_own(truth: dict[str, Any], job: Any) -> bool:
    """Return whether the first culprit has another fault at the same time as the expected culprit."""
    true_culprit, first = (
        truth["expected"]["culprit"],
        job.culprits[0].subject if job.culprits else None,
    )
    spans = {
        (p["task"], p["subtask_index"]): (p["from"], p["until"], p["cause"])
        for p in truth.get("periods", ())
    }
    if true_culprit is None or first is None:
        return False
    right = spans.get((true_culprit.get("task"), true_culprit.get("subtask_index")))
    named = spans.get((first.task, first.subtask_index))
    return right is not None and named is not None and named == (*right[:2], job.cause)


def outcome(recording: Recording, name: str, spark: SparkSession) -> str | None:
    """Grade one variant by its worst job; None if the recording has no such variant."""
    with tempfile.TemporaryDirectory() as folder:
        paths = variant(recording, name, Path(folder))
        if paths is None:
            return None
        report = diagnose((CHECKPOINTS,), discover(paths), lambda: spark)
    jobs: dict[str | None, Any] = {job.job_id: job for job in report.data.jobs or ()}
    # In logs without job IDs, the findings of the nameless job may be about any job.
    nameless = None if jobs.keys() - {None} else jobs.get(None)
    grades = []
    for truth in recording.jobs:
        job = jobs.get(truth["job"]["job_id"], nameless)
        if job is None:
            grades.append("inconclusive")
            continue
        grade = judged(truth["expected"], job.verdict, job.cause, job.culprits)
        grades.append("right" if _has_fault_of_its_own(truth, job) else grade)
    order = ("right", "inconclusive", "wrong (low)", "wrong (medium)", "wrong", "wrong (high)")
    return (max if nameless is None else min)(grades, key=order.index)
