"""Keeps every report on every recording, and compares two sets: a refactoring must not change any.

    python -m benchmarks.reports keep before/          # with the old code
    python -m benchmarks.reports keep after/           # with the new code
    python -m benchmarks.reports compare before/ after/

`keep` writes the JSON document and the table of every recording, by every command that applies, to
a folder. `compare` lists the files that are not byte-for-byte equal, with the first different
lines, and exits with 1 if there are any. `--but-totals` ignores differences in the number of
evidence lines.

Judging takes a minute and measuring ten. For work on rules, words and layouts

    python -m benchmarks.reports measure facts/        # once, with Spark
    python -m benchmarks.reports keep after/ --measured facts/

writes the same files without Spark, while the measured facts are unchanged. `--widths 60 80 120`
also writes every report at these terminal widths.
"""

from __future__ import annotations

import argparse
import difflib
import pickle
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import zstandard

from fixtures.synthetic import make, make_spark
from flowdiag.parsers.discover import discover

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report

RECORDINGS: Final = Path("fixtures/recordings")
SYNTHETIC: Final = Path(tempfile.gettempdir(), "flowdiag-synthetic")  # reports name their inputs
_SHOWN: Final = 20  # lines of a difference
_TOTALS: Final = re.compile(r'"evidence_total": \d+|^\s*… \d+ more$', re.MULTILINE)


def inputs(top: Path) -> Iterator[tuple[Path, str]]:
    """Yield every recording below a checkout and every synthetic input, with every command that
    applies.

    Args:
        top: the root folder of the checkout.
    """
    from flowdiag.analyses.topic_names import ENGINES

    make.write_all(SYNTHETIC / "flink")
    make_spark.write_all(SYNTHETIC / "spark")
    found = sorted(path.parent for path in (top / RECORDINGS).rglob("truth.json"))
    found += sorted(path.parent for path in SYNTHETIC.rglob("truth.json"))
    for path in found:
        engine = "spark" if "spark" in _place(path, top).parts else "flink"
        for topic, topic_engine in ENGINES.items():
            if topic_engine == engine:
                yield path, topic


def _place(path: Path, top: Path) -> Path:
    return path.relative_to(SYNTHETIC.parent if path.is_relative_to(SYNTHETIC) else top)


def keep(
    folder: Path,
    top: Path,
    shard: int = 0,
    shards: int = 1,
    measured: Path | None = None,
    widths: Sequence[int] = (),
) -> int:
    """Write every report to a folder, and return their number.

    Args:
        folder: created if it does not exist.
        top: the root folder of the checkout that holds the recordings.
        shard, shards: index and number of the parts, for several processes.
        measured: a folder that `measure_all` wrote; None measures with Spark now.
        widths: columns for additional tables, next to the default of 100.
    """
    from flowdiag.analyses.contract.encoding import encode
    from flowdiag.analyses.diagnosis import report_on
    from flowdiag.analyses.topics import topic
    from flowdiag.cli.render import markdown, table
    from flowdiag.cli.text.page import Page

    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for stem, name, kept in (
        _read(measured, top, shard, shards) if measured else _measured(top, shard, shards)
    ):
        report = report_on((topic(name),), *kept)
        for fault in report.errors:
            sys.stderr.write(f"{stem} {name}: {fault.message}\n")
        (folder / f"{stem}.{name}.json").write_bytes(encode(report))
        (folder / f"{stem}.{name}.txt").write_text(table.render(report, Page(width=100)))
        for width in widths:
            shown = table.render(report, Page(width=width))
            (folder / f"{stem}.{name}.{width}.txt").write_text(shown)
        if widths:
            (folder / f"{stem}.{name}.md").write_text(markdown.render(report, Page()))
        number += 1
    return number


def measure_all(folder: Path, top: Path, shard: int = 0, shards: int = 1) -> int:
    """Store Spark's measurements, so that `keep` can judge without Spark; the arguments are those of `keep`."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for stem, name, kept in _measured(top, shard, shards):
        (folder / f"{stem}.{name}.pickle").write_bytes(pickle.dumps(kept))
        number += 1
    return number


def _measured(top: Path, shard: int, shards: int) -> Iterator[tuple[str, str, tuple[Any, Any]]]:
    """Yield the name of each input, the topic, and the results of its `look` and `measure`
    functions."""
    from flowdiag.analyses.diagnosis import inspect_inputs, measure
    from flowdiag.analyses.inputs import find
    from flowdiag.analyses.selection.options import Options
    from flowdiag.analyses.topic_names import ENGINES
    from flowdiag.analyses.topics import topic
    from flowdiag.cli.spark.starter import SparkStarter

    part = list(inputs(top))[shard::shards]
    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        for number, (path, name) in enumerate(part):
            discovery = find([str(path)], strict=False, engine=ENGINES[name])
            inspected = inspect_inputs((topic(name),), discovery, Options())
            kept = inspected, measure((topic(name),), inspected, lambda: session)
            yield f"{_place(path, top)}".replace("/", "__"), name, kept
            sys.stderr.write(f"\r{number + 1}/{len(part)}")


def _read(
    folder: Path, top: Path, shard: int, shards: int
) -> Iterator[tuple[str, str, tuple[Any, Any]]]:
    for path in sorted(folder.glob("*.pickle"))[shard::shards]:
        stem, _, name = path.name.removesuffix(".pickle").rpartition(".")
        inspected, measured = map(_filled, pickle.loads(path.read_bytes()))
        place = stem.replace("__", "/")
        below = SYNTHETIC.parent if place.startswith(SYNTHETIC.name) else top
        found = _unpacked(below / place)
        sources = tuple(
            replace(source, path=found.get(source.name, source.path))
            for source in inspected.sources
        )
        yield stem, name, (replace(inspected, sources=sources), measured)


def joined(measured: Path, top: Path) -> Iterator[tuple[str, Report]]:
    """Yield each input with the `flowdiag diagnose` report on facts that were measured command by
    command.

    Args:
        measured: a folder that `measure_all` wrote.
        top: the root folder of the checkout that holds the recordings.
    """
    from flowdiag.analyses.diagnosis import report_on
    from flowdiag.analyses.selection.options import Options
    from flowdiag.analyses.topic_names import ENGINES
    from flowdiag.analyses.topics import topic

    topics = Counter(path.name.rsplit(".", 2)[0] for path in measured.glob("*.pickle"))
    parts: dict[str, tuple[Any, Any]] = {}
    for stem, name, kept in _read(measured, top, 0, 1):
        parts[name] = kept
        if len(parts) < topics[stem]:
            continue
        names = [each for each in ENGINES if each in parts]
        # `memory` alone reads configurations in addition to the scan.
        inspected, _ = parts.get("memory") or parts[names[0]]
        facts = {each: parts[each][1].facts[each] for each in names}
        found = replace(parts[names[0]][1], facts=facts)
        yield stem, report_on(tuple(map(topic, names)), inspected, found, Options(everything=True))
        parts = {}


def _filled(kept: Any) -> Any:
    """Return an unpickled object, with defaults for fields that were added later."""
    for each in fields(kept):
        if not hasattr(kept, each.name):
            object.__setattr__(kept, each.name, each.default)
    return kept


@lru_cache(maxsize=1)  # the topics of an input are adjacent
def _unpacked(path: Path) -> dict[str, str]:
    """Map the files of an input by name to their current paths, because another process unpacked
    them elsewhere."""
    return {source.name: source.path for source in discover([str(path)]).sources}


# Samples for tests of the terminal report: each topic, faulty and healthy, sure and unsure, one job and two.
SAMPLED: Final = (
    "flink__2.3.0__two-jobs.checkpoints",
    "startup__1.12.5__frozen-taskmanager.checkpoints",
    "collected__1.20.5-hot-key.queues",
    "flink__1.20.5__no-metrics-hot-key.queues",
    "flink__1.20.5__taskmanager-killed.startup",
    "startup__1.10.3__too-few-buffers.memory",
    "spark__4.3.0__fixed-cost.rate",
    "spark__3.5.7__query-overloaded.rate",
)
SAMPLE: Final = Path("tests/cli/reports.jsonl.zst")


def sample(folder: Path) -> int:
    """Keep some of the reports that `keep` wrote for tests without Spark, and return their
    number.
    """
    lines = []
    for name in SAMPLED:
        document = (folder / f"fixtures__recordings__{name}.json").read_bytes()
        lines.append(msgspec.json.encode(msgspec.json.decode(document)))
    SAMPLE.write_bytes(zstandard.compress(b"\n".join(lines), 19))
    return len(lines)


def compare(before: Path, after: Path, *, but_totals: bool) -> int:
    """List the reports that differ, and return their number."""
    names = sorted({path.name for folder in (before, after) for path in folder.iterdir()})
    names = [name for name in names if name.endswith((".json", ".txt"))]
    differ = 0
    for name in names:
        old, new = (_text(folder / name, but_totals) for folder in (before, after))
        if old != new:
            differ += 1
            lines = difflib.unified_diff(
                old.splitlines(), new.splitlines(), "before", "after", lineterm="", n=1
            )
            print(f"{name}\n" + "\n".join(f"    {line}" for line in list(lines)[:_SHOWN]))
    print(f"{len(names)} files, {differ} differ")
    return differ


def _text(path: Path, but_totals: bool) -> str:
    if not path.exists():
        return "there is none"
    text = path.read_text()
    return _TOTALS.sub("", text) if but_totals else text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep")
    keeping.add_argument("--measured", type=Path, help="a folder of `measure`: without Spark")
    keeping.add_argument(
        "--widths", type=int, nargs="*", default=(), help="show each in so many columns, too"
    )
    measuring = commands.add_parser("measure")
    for each in (keeping, measuring):
        each.add_argument("folder", type=Path)
        each.add_argument("--top", type=Path, default=Path(), help="checkout with the recordings")
        each.add_argument("--shard", type=int, default=0)
        each.add_argument("--shards", type=int, default=1)
    sampling = commands.add_parser("sample", help="keep some of them for tests")
    sampling.add_argument("folder", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--but-totals", action="store_true")
    args = parser.parse_args()
    if args.command == "keep":
        parts = args.shard, args.shards
        print(keep(args.folder, args.top, *parts, args.measured, args.widths), "reports")
        return 0
    if args.command == "sample":
        print(sample(args.folder), "reports in", SAMPLE)
        return 0
    if args.command == "measure":
        print(measure_all(args.folder, args.top, args.shard, args.shards), "inputs")
        return 0
    return 1 if compare(args.before, args.after, but_totals=args.but_totals) else 0


if __name__ == "__main__":
    raise SystemExit(main())
