"""Measures whether a diagnosis names the code behind a slow task, for each recording with thread dumps of such a job.

python -m benchmarks.code --write     # and writes the table into the section "Live jobs" of docs/accuracy.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowdiag.cli.spark.starter import SparkStarter
from tests import test_live_recordings as flink
from tests import test_spark_live_recordings as spark_live
from tests.archives import unpacked

from .accuracy import LIVE, PAGE, section
from .live import agrees, diagnose_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.contract.report import Report

TITLE: Final = "### The line of code"


class Row(NamedTuple):
    """The grades of a recording. A grade is None if the truth does not contain the answer."""

    name: str
    cause: str | None
    kind: bool
    culprit: bool | None
    line: bool | None
    innocent: bool


def rows(spark: SparkSession, known: Sequence[Row]) -> Iterator[Row]:
    """Yield the grades of each recording of slow code, and of healthy jobs with thread dumps.

    Args:
        known: rows from an earlier run, which are not measured again.
    """
    kept = {row.name: row for row in known}
    for folder in (*flink.ALL, *spark_live.ALL):
        name = "/".join(folder.parts[-3:])
        if name in kept:
            yield kept[name]
        elif folder.name.removeprefix("live-").startswith("code-"):
            expected = json.loads((folder / "truth.json").read_text())["expected"]
            yield _grade(name, expected, diagnose_paths([str(unpacked(folder))], spark))


def _grade(name: str, expected: Mapping[str, Any], report: Report) -> Row:
    culprits = report.summary.culprits
    if expected["cause"] is None:
        healthy = report.summary.verdict == "healthy"
        return Row(name, None, healthy, None, None, not culprits)
    reading = expected["reading"]
    line = reading.get("method") or reading.get("line")
    first = culprits[0] if culprits else None
    return Row(
        name,
        reading["cause"],
        report.summary.cause in (expected["cause"], reading["cause"]),
        first is not None and agrees(expected, first.subject),
        None if not line else first is not None and line in first.why,
        all(agrees(expected, each.subject) for each in culprits),
    )


def table(found: Sequence[Row]) -> str:
    """Return the table, introduced by a sentence that counts the answers."""
    sick = [row for row in found if row.cause is not None]
    right = sum(row.kind and row.culprit is not False and row.innocent for row in found)
    lines = [row.line for row in sick if row.line is not None]
    return "\n".join(
        (
            f"{TITLE}\n",
            "Jobs with a known kind of slow code, and healthy jobs, all with thread dumps.",
            f"Kind and culprits are right in {right} of {len(found)}, the line in {sum(lines)} of {len(lines)}.",
            "Measured by `python -m benchmarks.code`.",
            "",
            "- *Kind*: the cause is that of the truth, or a healthy job is called healthy.",
            "- *Culprit*: the first culprit is the task of the truth.",
            "- *Line*: the proof contains the method.",
            "- *Others*: no other task is a culprit.",
            "",
            "| recording | slow code | kind | culprit | line | others |",
            "|---|---|---|---|---|---|",
            *(
                f"| {row.name} | {row.cause or 'none'} | {' | '.join(map(_word, row[2:]))} |"
                for row in found
            ),
        )
    )


def _word(value: bool | None) -> str:
    return "–" if value is None else "right" if value else "**wrong**"


def main() -> int:
    """Measure, print the table, and write it into the page."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true", help="write the table into the page")
    options.add_argument("--keep", type=Path, help="file with earlier results; extended")
    args = options.parse_args()
    known = json.loads(args.keep.read_text()) if args.keep and args.keep.exists() else []
    found = []
    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for row in rows(session, [Row(*each) for each in known]):
            found.append(row)
            if args.keep:
                args.keep.write_text(json.dumps(found))
            print(*row, sep=", ", file=sys.stderr, flush=True)
    text = table(found)
    print(text)
    if args.write:
        _write(PAGE, text)
    return 0


def _write(path: Path, text: str) -> None:
    page = path.read_text()
    old = section(page, LIVE)
    if not old:
        raise SystemExit(f"{path} has no section {LIVE}")
    above = old.partition(TITLE)[0].rstrip()
    path.write_text(page.replace(old, f"{above}\n\n{text}\n\n"))


if __name__ == "__main__":
    raise SystemExit(main())
