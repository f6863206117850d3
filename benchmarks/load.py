"""Measures time and memory for inputs that are large in one dimension each.

    python -m benchmarks.load                 all but the 40 GB, which need that much disk space
    python -m benchmarks.load --only week     one of them
    python -m benchmarks.load --only logs     the 40 GB, in /tmp or --folder
    python -m benchmarks.load --scale 0.1     a tenth of each; `--growth`: also half of it
    python -m benchmarks.load --write         writes the table to docs/reliability.md

`--growth` shows costs that are far from proportional. `tests/test_load.py` tests without a clock
that no work is quadratic.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import logs
from benchmarks.measuring import Contender, Run, machine, run

PAGE: Final = Path(__file__).parents[1] / "docs" / "reliability.md"
_MARKS: Final = re.compile(r"(?<=<!-- load: measured -->\n).*?(?=<!-- /load -->)", re.DOTALL)
_COORDINATOR: Final = "INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator    [] -"
_GRAPH: Final = "INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph       [] -"
_RESOURCES: Final = "INFO  org.apache.flink.runtime.resourcemanager.StandaloneResourceManager [] -"
_KIND: Final = "(type=CheckpointType{name='Checkpoint', sharingFilesStrategy=FORWARD_BACKWARD})"
_BEGIN: Final = (
    "INFO  org.apache.flink.runtime.entrypoint.ClusterEntrypoint        [] -  Starting"
    " StandaloneSessionClusterEntrypoint (Version: 1.20.5, Scala: 2.12, Rev:0980485,"
    " Date:2026-06-08T09:21:06+02:00)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """An input that is large in one dimension.

    Attributes:
        what: label in the table.
        most: number of items at full scale.
        write: creates an input with that many items in a folder.
        command: the command that reads it.
    """

    what: str
    most: int
    write: Callable[[Path, int], None]
    command: str = "checkpoints"


def stamped(us: int, text: str) -> str:
    """Return a log record with a time in microseconds since the start of the logs."""
    seconds, rest = divmod(us, 1_000_000)
    return f"{logs.stamp_of(seconds)},{rest // 1000:03} {text}\n"


def job_id(number: int) -> str:
    return f"{number + 1:032x}"


def deployed(job: str, subtasks: int, taskmanagers: int, us: int) -> Iterator[str]:
    """Yield the records of a starting job with two vertices, in which every subtask is deployed."""
    yield stamped(
        us, f"{_GRAPH} Job orders-{job[-5:]} ({job}) switched from state CREATED to RUNNING."
    )
    for index in range(subtasks):
        for vertex, name in enumerate(("Source: orders", "enrich")):
            attempt = f"{job}_{vertex:032x}_{index}_0"
            number = index % taskmanagers
            place = f"taskmanager-{number} @ worker-{number}.flink.example (dataPort=36667)"
            yield stamped(
                us,
                f"{_GRAPH} Deploying {name} ({index + 1}/{subtasks}) (attempt #0) with attempt id {attempt}"
                f" and vertex id {vertex:032x}_{index} to {place} with allocation id {index:032x}",
            )
            yield stamped(
                us,
                f"{_GRAPH} {name} ({index + 1}/{subtasks}) ({attempt}) switched from INITIALIZING to RUNNING.",
            )


def checkpoint(
    job: str, number: int, us: int, *, late: int = 0, managers: int = 1
) -> Iterator[str]:
    """Yield a checkpoint that completes after 200 ms, or expires after 600 ms with some late
    acknowledgements.
    """
    epoch_ms = logs.START * 1000 + us // 1000
    yield stamped(
        us, f"{_COORDINATOR} Triggering checkpoint {number} {_KIND} @ {epoch_ms} for job {job}."
    )
    if not late:
        end = f"{number} for job {job} (62240 bytes, checkpointDuration=200 ms, finalizationTime=9 ms)."
        yield stamped(us + 200_000, f"{_COORDINATOR} Completed checkpoint {end}")
        return
    expired = f"Checkpoint {number} of job {job} expired before completing."
    yield stamped(us + 600_000, f"{_COORDINATOR} {expired}")
    for index in range(late):
        place = f"taskmanager-{index % managers} @ worker-{index % managers}.flink.example (dataPort=36667)"
        yield stamped(
            us + 700_000,
            _COORDINATOR.replace("INFO ", "WARN ")
            + f" Received late message for now expired checkpoint attempt {number} from task"
            f" {job}_{1:032x}_{index}_0 of job {job} at {place}.",
        )


def week(folder: Path, count: int) -> None:
    """Write a checkpoint per second; one in a thousand expires."""
    job = job_id(0)
    with (folder / "jobmanager.log").open("w", encoding="utf-8", newline="\n") as file:
        file.write(stamped(0, _BEGIN))
        file.writelines(deployed(job, 4, 2, 0))
        for number in range(1, count + 1):
            late = 3 if number % 1000 == 0 else 0
            file.writelines(checkpoint(job, number, number * 1_000_000, late=late))


def jobs(folder: Path, count: int) -> None:
    """Write many interleaved jobs to one log, with ten checkpoints each; every tenth has late
    acknowledgements.
    """
    with (folder / "jobmanager.log").open("w", encoding="utf-8", newline="\n") as file:
        file.write(stamped(0, _BEGIN))
        for number in range(count):
            file.writelines(deployed(job_id(number), 2, 2, number * 1000))
        for turn in range(1, 11):
            for number in range(count):
                late = 2 if number % 10 == 0 and turn > 5 else 0
                us = turn * 60_000_000 + number * 1000
                file.writelines(checkpoint(job_id(number), turn, us, late=late))


def taskmanagers(folder: Path, count: int) -> None:
    """Write a job on many TaskManagers, each with one subtask of both vertices, and a few
    checkpoints, some late."""
    job = job_id(0)
    with (folder / "jobmanager.log").open("w", encoding="utf-8", newline="\n") as file:
        file.write(stamped(0, _BEGIN))
        for number in range(count):
            who = f"taskmanager-{number} (pekko.tcp://flink@worker-{number}.flink.example:6122/user/rpc/taskmanager_0)"
            file.write(
                stamped(
                    0,
                    f"{_RESOURCES} Registering TaskManager with ResourceID {who} at ResourceManager",
                )
            )
        file.writelines(deployed(job, count, count, 1_000_000))
        for number in range(1, 21):
            late = count // 50 if number > 10 else 0
            file.writelines(checkpoint(job, number, number * 60_000_000, late=late, managers=count))


def subtasks(folder: Path, count: int) -> None:
    """Write checkpoints of a job whose many subtasks all acknowledge late, with their REST
    answers.
    """
    job = job_id(0)
    with (folder / "jobmanager.log").open("w", encoding="utf-8", newline="\n") as file:
        file.write(stamped(0, _BEGIN))
        file.writelines(deployed(job, count, 50, 0))
        for number in range(1, 6):
            file.writelines(checkpoint(job, number, number * 60_000_000))
        for number in range(6, 9):
            file.writelines(checkpoint(job, number, number * 60_000_000, late=count, managers=50))
    for number in range(6, 9):
        begun = logs.START * 1000 + number * 60_000
        answer = {
            "id": number,
            "status": "FAILED",
            "latest_ack_timestamp": begun + 700,
            "state_size": 1,
            "end_to_end_duration": 700,
            "num_subtasks": count,
            "num_acknowledged_subtasks": count - 1,
            "summary": {},
            "subtasks": [
                {
                    "index": index,
                    "status": "completed",
                    "ack_timestamp": begun + 100 + index % 50,
                    "end_to_end_duration": 100 + index % 50,
                    "state_size": 100,
                    "checkpoint": {
                        "sync": 1,
                        "async": 50,
                        "unaligned_checkpoint": False,
                        "aborted": False,
                    },
                    "alignment": {"buffered": 0, "processed": 1, "persisted": 0, "duration": 3},
                    "start_delay": 2,
                }
                for index in range(count)
            ],
        }
        name = f"jobs_{job}_checkpoints_details_{number}_subtasks_{1:032x}.json"
        (folder / name).write_text(json.dumps(answer))


def files(folder: Path, count: int) -> None:
    """Write a log split into files of 10 KB."""
    many, whole = logs.make_pieces(folder, count, 10_000)
    shutil.rmtree(whole)
    many.rename(folder / "pieces")


def forty_gigabytes(folder: Path, megabytes: int) -> None:
    """Write the logs of the other benchmarks; half of the bytes are metric reports."""
    logs.make(folder, megabytes, reports=True)


LOADS: Final = {
    "files": Load(what="files of 10 KB", most=10_000, write=files),
    "jobs": Load(what="jobs in one log", most=2_000, write=jobs),
    "taskmanagers": Load(what="TaskManagers", most=5_000, write=taskmanagers),
    "subtasks": Load(what="subtasks, late in three checkpoints", most=10_000, write=subtasks),
    "week": Load(what="checkpoints, one a second", most=604_800, write=week),
    "startup": Load(
        what="TaskManagers, `startup`", most=5_000, write=taskmanagers, command="startup"
    ),
    "logs": Load(what="megabytes of logs", most=40_000, write=forty_gigabytes),
}
_UNASKED: Final = ("logs",)


def measured(load: Load, count: int, folder: Path) -> tuple[int, Run]:
    """Return the size of an input in bytes, and the time and memory of its command."""
    place = Path(tempfile.mkdtemp(dir=folder, prefix="flowdiag-load-"))
    try:
        load.write(place, count)
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        command = [sys.executable, "-m", "flowdiag", load.command, str(place), "-q", "-f", "json"]
        contender = Contender(name=load.what, command=command, succeeds=(0, 1, 3))
        return size, run(contender, memory=True)
    finally:
        shutil.rmtree(place)


def table(names: list[str], scale: float, folder: Path, *, growth: bool) -> Iterator[str]:
    yield f"{machine()}\n\n| | | size | wall | peak of all processes |\n|--:|---|--:|--:|--:|\n"
    for name in names:
        load = LOADS[name]
        most = max(10, round(load.most * scale))
        for count in (most // 2, most) if growth else (most,):
            size, took = measured(load, count, folder)
            line = (
                f"| {count:,} | {load.what} | {size / 1e6:,.0f} MB | {took.wall:.1f} s |"
                f" {(took.peak or 0) / 1e6:,.0f} MB |\n"
            )
            print(line, end="", file=sys.stderr)
            yield line


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=LOADS, metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    names = args.only or [name for name in LOADS if name not in _UNASKED]
    text = "".join(table(names, args.scale, args.folder, growth=args.growth))
    if args.write:
        PAGE.write_text(_MARKS.sub(lambda _: text, PAGE.read_text()))
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
