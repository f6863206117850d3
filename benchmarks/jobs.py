"""Generates a folder with many jobs: archives of a Flink History Server, or event logs of Spark.

    python -m benchmarks.jobs /tmp/archives --jobs 10000
    python -m benchmarks.jobs /tmp/event-logs --jobs 200 --engine spark

Each job is a copy of a recorded one with an identifier of its own, one hour after the job before
it. Every fiftieth job is unhealthy. The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import re
import tarfile
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Final

import zstandard

RECORDINGS: Final = Path(__file__).parents[1] / "fixtures" / "recordings"
FILES: Final = {  # the folder, a healthy recording, and a sick one
    "flink": ("archive", "flink/1.20.5/healthy", "flink/1.20.5/hot-key"),
    "spark": ("eventlog", "spark/3.5.7/stable", "spark/3.5.7/derivative"),
}
SICK_EVERY: Final = 50
HOUR_MS: Final = 3_600_000
_MILLISECONDS: Final = re.compile(rb"\b1[78]\d{11}\b")


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A file of a recording about one job, and the job's identifier in its text."""

    content: bytes
    job: bytes

    def copy(self, number: int) -> tuple[str, bytes]:
        """Return the identifier and the content of a copy, shifted by that number of hours."""
        job = f"local-{number:013d}"
        if not self.job.startswith(b"local-"):
            job = md5(job.encode(), usedforsecurity=False).hexdigest()
        shift = number * HOUR_MS
        text = _MILLISECONDS.sub(lambda found: b"%d" % (int(found[0]) + shift), self.content)
        return job, text.replace(self.job, job.encode())


def recorded(name: str, folder: str) -> RecordedJob:
    """Read the first file in a folder of a recording; its name is the job's identifier."""
    recording = RECORDINGS / name
    with (
        zstandard.open(recording / f"{recording.name}.tar.zst", "rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            if member.name.startswith(f"{folder}/") and (file := archive.extractfile(member)):
                return RecordedJob(file.read(), Path(member.name).name.encode())
    raise FileNotFoundError(f"{recording} has no {folder}")


def make(folder: Path, jobs: int, engine: str) -> Path:
    """Write the files of all jobs, if they are not there yet, and return their folder."""
    path = folder / f"jobs-{engine}-{jobs}"
    if path.is_dir():
        return path
    path.mkdir(parents=True)
    kind, *names = FILES[engine]
    healthy, sick = (recorded(name, kind) for name in names)
    for number in range(jobs):
        job, content = (sick if number % SICK_EVERY == SICK_EVERY - 1 else healthy).copy(number)
        (path / job).write_bytes(content)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--engine", choices=FILES, default="flink")
    options = parser.parse_args()
    print(make(options.folder, options.jobs, options.engine))


if __name__ == "__main__":
    main()
