"""Measures how often a single pasted exception is recognized, by failure and wrapping.

Run from a checkout with the development extras:

    python -m benchmarks.pastes              # prints the table
    python -m benchmarks.pastes --write      # and writes docs/pastes.md
    python -m benchmarks.pastes --show NAME  # prints the report on one paste
    python -m benchmarks.pastes --only run-only --quick  # one half of the open pastes

`benchmarks/open_pastes.py` explains the open pastes: failures from outside the catalogue. The known pastes and their expected answers are in `fixtures/pastes/*.toml`, the wrappings in
`tests/parsers/traces.py`. Each paste takes the path of `flowdiag PATH`, which is `flowdiag
diagnose`: all topics of the exception's engine, one report, one exit code.

Wrappings that result in the same rows are judged once. Rows that Spark only passes on are assembled
without Spark (`tests/unmeasured.py`; a test compares both ways), unless `--spark` is given.
`--measured FOLDER` keeps Spark's results from run to run.
"""

from __future__ import annotations

import argparse
import hashlib
import pickle
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.open_pastes import (
    PARTS as OPEN_PARTS,
)
from benchmarks.open_pastes import (
    OpenAnswer,
    OpenPaste,
    answers_of,
    judge_open,
    open_pastes,
    section,
)
from flowdiag.analyses.contract.report import Finding, Report
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.report.fitting import engines_of
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from flowdiag.cli.exit_codes import exit_code
from flowdiag.cli.settings import Settings
from flowdiag.parsers.discover import Discovery, discover
from flowdiag.parsers.split import Split, parse_split
from tests.parsers.traces import CUT, HEADED, WRAPPINGS
from tests.unmeasured import measured as measured_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = Path(__file__).parents[1] / "docs" / "pastes.md"
FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "pastes"
RIGHT: Final = "right"
PARTS: Final = ("known", *OPEN_PARTS)
SIGNS: Final = {"right": "✓", "inconclusive": "?", "wrong": "✗"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paste:
    """An exception as people paste it, and the expected answer."""

    engine: str
    name: str
    kind: str  # its class
    lines: tuple[str, ...]
    uncut: bool
    headless: bool
    right: Mapping[str, Any]

    @property
    def id(self) -> str:
        """A name that is unique across both engines."""
        return f"{self.engine}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome for a paste in a wrapping (`right`, `inconclusive` or `wrong`), and the
    reason.
    """

    verdict: str
    why: str = ""


def pastes() -> list[Paste]:
    """Return the corpus, in its order."""
    return [
        Paste(
            engine=engine,
            name=entry["name"],
            kind=entry["class"],
            lines=tuple(entry["text"].strip("\n").split("\n")),
            uncut=entry.get("uncut", False),
            headless=entry.get("headless", False),
            right=entry["right"],
        )
        for engine in ("flink", "spark")
        for entry in tomllib.loads((FOLDER / f"{engine}.toml").read_text())["paste"]
    ]


def wrappings_of(engine: str) -> dict[str, Callable[[list[str]], str]]:
    """Return the wrappings for the pastes of an engine, by name."""
    return {**WRAPPINGS, **HEADED[engine]}


def wrap(paste: Paste, wrapping: str) -> str | None:
    """Return the wrapped text, or None if the wrapping removes the decisive part."""
    if (paste.uncut and wrapping in CUT) or (paste.headless and wrapping in HEADED[paste.engine]):
        return None
    return wrappings_of(paste.engine)[wrapping](list(paste.lines))


class PasteJudge:
    """Answers to pastes, computed once for each set of rows."""

    def __init__(
        self,
        folder: Path,
        session: Callable[[], SparkSession] | None,
        measured: Path | None = None,
        *,
        all_with_spark: bool = False,
    ) -> None:
        """Create a judge without any measurements.

        Args:
            folder: a folder for the files of pastes.
            session: returns the Spark session. None omits the pastes that rows alone do not settle.
            measured: a folder that keeps measurements; None keeps nothing.
            all_with_spark: whether Spark also measures the inputs that rows alone settle.
        """
        self._all = all_with_spark
        self._folder = folder
        self._session = session
        self._measured = measured
        self._known: dict[str, Report] = {}

    @property
    def measured(self) -> int:
        """The number of different inputs measured."""
        return len(self._known)

    def answer(self, paste: Paste, wrapping: str) -> Answer | None:
        """Return the answer of `flowdiag PATH` to a wrapped paste, or None if there is no input."""
        text = wrap(paste, wrapping)
        if text is None:
            return None
        report = self.report(self.inputs(text))
        return (
            None
            if report is None
            else judge(paste, report, cut=wrapping in CUT, headed=wrapping in HEADED[paste.engine])
        )

    def inputs(self, text: str) -> Discovery:
        """Write the text to a file and resolve it as `flowdiag diagnose` does."""
        path = self._folder / "paste"
        path.write_bytes(text.encode())
        found = discover([str(path)])
        return replace(found, sources=engines_of(found.sources)[0])

    def report_on_text(self, text: str) -> Report | None:
        """Return the report on a text, or None if it needs Spark and there is none."""
        return self.report(self.inputs(text))

    def report(self, found: Discovery) -> Report | None:
        """Return the report on these inputs, or None if it needs Spark and there is none."""
        key = hashlib.sha256(signature(found).encode()).hexdigest()
        if key not in self._known:
            topics = tuple(map(topic, names_of(EVERYTHING, engines_of(found.sources)[1])))
            options = Options(everything=True)
            inspected = inspect_inputs(topics, found, options)
            kept = None if self._measured is None else self._measured / key
            facts: Measured | None
            facts = None if self._all else measured_alone([topic.name for topic in topics], found)
            if facts is not None:
                pass
            elif self._session is None:
                return None
            elif kept is not None and kept.exists():
                facts = pickle.loads(kept.read_bytes())
                assert facts is not None
            else:
                facts = measure(topics, inspected, self._session, options)
                if kept is not None:
                    kept.write_bytes(pickle.dumps(facts))
            self._known[key] = report_on(topics, inspected, facts, options)
        return self._known[key]


def signature(found: Discovery) -> str:
    """Return the content of an input regardless of its place in the file: equal signatures have
    equal reports.
    """
    parts: list[str] = []
    for source in found.sources:
        parts.append(f"{source.kind} {source.engine}")
        batches = () if source.kind == "not-read" else parse_split(Split(source, 0, -1))
        rows = [
            repr([(k, v) for k, v in row.items() if k != "offset" and v])
            for batch in batches
            for row in batch.to_pylist()
            if row["event"] != "split"
        ]
        # Without rows, the report may still depend on what the text looks like.
        parts += rows or [Path(source.path).read_text(encoding="utf-8", errors="replace")]
    return "\n".join(parts)


def judge(paste: Paste, report: Report, *, cut: bool = False, headed: bool = False) -> Answer:
    """Compare a report with the expected answer.

    Args:
        cut: whether the wrapping cut off the outermost exception, which names the subject, and the last lines.
        headed: whether a record above the exception shows that the job or the query ended.
    """
    right = paste.right
    summary = report.summary
    if summary.verdict == "healthy" or exit_code(report, Settings()) == 0:
        return Answer(verdict="wrong", why="healthy")
    if exit_code(report, Settings()) == 3:
        return Answer(verdict="inconclusive", why="nothing found")
    if (summary.cause or "") != right["cause"]:
        lacks = not summary.cause
        return Answer(
            verdict="inconclusive" if lacks else "wrong", why=f"cause {summary.cause or 'none'}"
        )
    expected = "failing" if headed else right.get("verdict", "failing")
    if summary.verdict != expected and not cut:
        return Answer(verdict="wrong", why=f"{summary.verdict}, not {expected}")
    return _check_details(paste, report, cut=cut)


def _check_details(paste: Paste, report: Report, *, cut: bool) -> Answer:
    """Return the answer after checking the subject, numbers, remedies and words of a report."""
    right = paste.right
    findings = report.findings
    for name, value in right.get("subject", {}).items():
        named = [getattr(finding.subject, name) for finding in findings]
        if value not in named and not cut:
            other = any(one is not None for one in named)
            return Answer(verdict="wrong" if other else "inconclusive", why=f"{name} {named}")
    for name, value in right.get("values", {}).items():
        measured = [m.value for finding in findings for m in finding.measurements if m.name == name]
        if value not in measured:
            return Answer(verdict="wrong" if measured else "inconclusive", why=f"{name} {measured}")
    for option in right.get("options", ()):
        if option not in {action.option for finding in findings for action in finding.actions}:
            return Answer(verdict="inconclusive", why=f"no {option}")
    for words in right.get("says", ()):
        if not any(words in _finding_text(finding) for finding in findings):
            return Answer(verdict="inconclusive", why=f"lacks {words!r}")
    return Answer(verdict=RIGHT)


def _finding_text(finding: Finding) -> str:
    return f"{finding.title} {finding.why or ''}"


def rows(judged: PasteJudge, corpus: Sequence[Paste]) -> Iterator[tuple[Paste, dict[str, Answer]]]:
    """Return the answers to each paste, by wrapping."""
    for paste in corpus:
        answers = {
            wrapping: judged.answer(paste, wrapping) for wrapping in wrappings_of(paste.engine)
        }
        yield (
            paste,
            {wrapping: answer for wrapping, answer in answers.items() if answer is not None},
        )


def page(
    answered: Sequence[tuple[Paste, Mapping[str, Answer]]],
    open_answers: Mapping[OpenPaste, OpenAnswer],
) -> str:
    """Render the Markdown page."""
    names = list(wrappings_of("flink"))
    letters = [chr(ord("a") + number) for number in range(len(names))]
    assert len(names) <= 26, "too many wrappings for single letters"
    total = Counter(answer.verdict for _, answers in answered for answer in answers.values())
    counts = ", ".join(f"{verdict} {total[verdict]}" for verdict in SIGNS)
    lines = [
        "# Pasted failures",
        "",
        "Generated by `python -m benchmarks.pastes --write` from the texts under `fixtures/pastes`. `flowdiag PATH` diagnoses",
        "each text on its own.",
        "",
        *section(open_answers),
        "## Known failures in every wrapping",
        "",
        "Every class of the catalogue, in every wrapping that people use when they paste an exception.",
        "",
        "- *Right* (✓): the verdict, the exit code, the cause, the subject that the text names, its numbers and the suggested",
        "  options are correct.",
        "- *Inconclusive* (?): some of these are missing.",
        "- *Wrong* (✗): another verdict, cause, subject or number, or a healthy verdict.",
        "- –: the wrapping leaves out the decisive line.",
        "- ·: not tried in this table, because only Spark measures it.",
        "",
        f"**{sum(total.values())} answers: {counts}.**",
        "",
        *(f"- **{letter}** {name}" for letter, name in zip(letters, names, strict=True)),
        "",
    ]
    for engine in ("flink", "spark"):
        lines += [
            f"### {engine.capitalize()}",
            "",
            "| failure | class | cause | " + " | ".join(letters) + " |",
            "|---" * (len(letters) + 3) + "|",
        ]
        for paste, answers in answered:
            if paste.engine == engine:
                signs = [_sign(paste, name, answers) for name in names]
                cells = (paste.name, paste.kind or "–", paste.right["cause"] or "–", *signs)
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _sign(paste: Paste, wrapping: str, answers: Mapping[str, Answer]) -> str:
    if wrapping in answers:
        return SIGNS[answers[wrapping].verdict]
    return "–" if wrap(paste, wrapping) is None else "·"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--show", help="print the report on the pastes whose name contains this")
    parser.add_argument("--spark", action="store_true", help="measure all pastes with Spark")
    parser.add_argument("--quick", action="store_true", help="only the pastes that need no Spark")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="only these; the page needs all"
    )
    parser.add_argument("--wrapping", default="bare", help="the wrapping that --show uses")
    parser.add_argument(
        "--measured", type=Path, help="folder that keeps measurements from run to run"
    )
    args = parser.parse_args()
    from flowdiag.cli.spark.starter import SparkStarter

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        def session() -> SparkSession:
            if not started:
                started.append(stack.enter_context(SparkStarter.begin()))
                started[0].tune(0)
            return started[0].session()

        started: list[SparkStarter] = []
        if args.measured is not None:
            args.measured.mkdir(parents=True, exist_ok=True)
        judged = PasteJudge(
            Path(folder),
            None if args.quick else session,
            args.measured,
            all_with_spark=args.spark,
        )
        if args.show is not None:
            _show(judged, args.show, args.wrapping)
            return 0
        parts = tuple(args.only or PARTS)
        answered = [
            (paste, _printed(paste.id, answers))
            for paste, answers in rows(judged, pastes() if "known" in parts else ())
        ]
        open_answers = answers_of(
            open_pastes(*(part for part in OPEN_PARTS if part in parts)), judged.report_on_text
        )
        for one, answer in open_answers.items():
            _printed(f"{one.half} | {one.group} | {one.name}", {one.shape: answer})
        print("\n".join(section(open_answers)))
        print(f"{judged.measured} measured", file=sys.stderr)
        if args.write and parts == PARTS:
            PAGE.write_text(page(answered, open_answers))
    verdicts = [a.verdict for _, answers in answered for a in answers.values()]
    return int("wrong" in verdicts + [a.verdict for a in open_answers.values()])


def _printed(name: str, answers: dict[str, Any]) -> dict[str, Any]:
    for wrapping, answer in answers.items():
        if answer.verdict != RIGHT:
            print(f"{name} | {wrapping}: {answer.verdict}: {answer.why}", flush=True)
    return answers


def _show(judged: PasteJudge, name: str, wrapping: str) -> None:
    from flowdiag.cli.render import table
    from flowdiag.cli.text.page import Page

    texts = {f"{paste.id} | {wrapping}": wrap(paste, wrapping) for paste in pastes()}
    open_texts = {f"{paste.group}: {paste.name}": paste for paste in open_pastes()}
    for title, text in {**texts, **{t: one.text for t, one in open_texts.items()}}.items():
        if name not in title or text is None:
            continue
        report = judged.report_on_text(text)
        if report is not None:
            print(f"===== {title}")
            if title in open_texts:
                print(open_texts[title].text, judge_open(open_texts[title], report), sep="\n\n")
            print(table.render(report, Page(width=110)))


if __name__ == "__main__":
    raise SystemExit(main())
