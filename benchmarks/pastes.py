"""How often one pasted exception is understood: every failure in every dress in which people paste it.

Run from a checkout with the development extras:

    python -m benchmarks.pastes              # prints the table
    python -m benchmarks.pastes --write      # and writes docs/pastes.md
    python -m benchmarks.pastes --show NAME  # prints the report of one paste

The pastes and what a right answer says of each stand in `fixtures/pastes/*.toml`, the dresses in
`tests/parsers/traces.py`. Each goes the way of `flowdiag PATH`, which is `flowdiag diagnose`: all topics of whose
exception it is, one report, its exit code. Dresses that come to the same rows are judged once. Rows that Spark only hands on are
assembled without it (`tests/unmeasured.py`; a test holds both against each other), unless `--spark` is given.
With `--measured FOLDER` what Spark measures is kept there from run to run.
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

from flowdiag.analyses.diagnosis import Measured, inspect_inputs, measure, report_on
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.report.fitting import engines_of
from flowdiag.analyses.report.wire import Finding, Report
from flowdiag.analyses.topics import EVERYTHING, names_of, topic
from flowdiag.cli.exit_codes import exit_code
from flowdiag.cli.options.settings import Settings
from flowdiag.parsers.sources.discover import Discovery, discover
from flowdiag.parsers.split import Split, parse_split
from tests.parsers.traces import CUT, HEADED, WRAPPINGS
from tests.unmeasured import measured as measured_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = Path(__file__).parents[1] / "docs" / "pastes.md"
FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "pastes"
RIGHT: Final = "right"
SIGNS: Final = {"right": "✓", "inconclusive": "?", "wrong": "✗"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paste:
    """One exception as people paste it, and what a right answer says of it."""

    engine: str
    name: str
    kind: str  # its class
    lines: tuple[str, ...]
    uncut: bool
    headless: bool
    right: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Its name among those of both engines."""
        return f"{self.engine}: {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of a paste in a dress: `right`, `inconclusive` or `wrong`, and why."""

    verdict: str
    why: str = ""


def pastes() -> list[Paste]:
    """The corpus, in its order."""
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


def dresses(engine: str) -> dict[str, Callable[[list[str]], str]]:
    """The dresses of an engine's pastes, by name."""
    return {**WRAPPINGS, **HEADED[engine]}


def dressed(paste: Paste, dress: str) -> str | None:
    """The text of a file; None where the dress takes away what says it."""
    if (paste.uncut and dress in CUT) or (paste.headless and dress in HEADED[paste.engine]):
        return None
    return dresses(paste.engine)[dress](list(paste.lines))


class Judged:
    """Answers, each of a set of rows asked for once."""

    def __init__(
        self,
        folder: Path,
        session: Callable[[], SparkSession] | None,
        measured: Path | None = None,
        *,
        all_with_spark: bool = False,
    ) -> None:
        """Nothing is measured yet.

        Args:
            folder: for the files.
            session: waits for Spark; None: what rows alone do not tell is left out.
            measured: a folder that keeps what was measured; None: nothing is kept.
            all_with_spark: measure what rows alone tell with Spark, too.
        """
        self._all = all_with_spark
        self._folder = folder
        self._session = session
        self._measured = measured
        self._known: dict[str, Report] = {}

    @property
    def measured(self) -> int:
        """How many different inputs were measured."""
        return len(self._known)

    def answer(self, paste: Paste, dress: str) -> Answer | None:
        """What `flowdiag PATH` says of a paste in a dress; None where there is nothing to say."""
        text = dressed(paste, dress)
        if text is None:
            return None
        report = self.report(self.inputs(text))
        return (
            None
            if report is None
            else judge(paste, report, cut=dress in CUT, headed=dress in HEADED[paste.engine])
        )

    def inputs(self, text: str) -> Discovery:
        """A file with the text, as `flowdiag diagnose` takes it."""
        path = self._folder / "paste"
        path.write_bytes(text.encode())
        found = discover([str(path)])
        return replace(found, sources=engines_of(found.sources)[0])

    def report(self, found: Discovery) -> Report | None:
        """The report on these inputs; None only without Spark."""
        key = hashlib.sha256(signature(found).encode()).hexdigest()
        if key not in self._known:
            topics = tuple(map(topic, names_of(EVERYTHING, engines_of(found.sources)[1])))
            options = Options(everything=True)
            inspected = inspect_inputs(topics, found, options)
            kept = None if self._measured is None else self._measured / key
            facts: Measured | None
            facts = None if self._all else measured_alone([one.name for one in topics], found)
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
    """What an input comes to, wherever in the file it stands: equal ones have equal reports."""
    said: list[str] = []
    for source in found.sources:
        said.append(f"{source.kind} {source.engine}")
        if source.kind == "not-read":
            continue
        for batch in parse_split(Split(source, 0, -1)):
            for row in batch.to_pylist():
                if row["event"] != "split":
                    said.append(repr([(k, v) for k, v in row.items() if k != "offset" and v]))
    return "\n".join(said)


def judge(paste: Paste, report: Report, *, cut: bool = False, headed: bool = False) -> Answer:
    """Hold a report against what a right answer says.

    Args:
        paste: the exception.
        report: what it said.
        cut: whether the outermost exception, which names who, and that nothing follows, was left out.
        headed: whether a record above it says that the job or the query ended.
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
    wanted = "failing" if headed else right.get("verdict", "failing")
    if summary.verdict != wanted and not cut:
        return Answer(verdict="wrong", why=f"{summary.verdict}, not {wanted}")
    return _details(paste, report, cut=cut)


def _details(paste: Paste, report: Report, *, cut: bool) -> Answer:
    """Whether the subject, the numbers, the remedies and the words are there."""
    right = paste.right
    findings = report.findings
    for name, value in right.get("subject", {}).items():
        named = [getattr(one.subject, name) for one in findings]
        if value not in named and not cut:
            other = any(one is not None for one in named)
            return Answer(verdict="wrong" if other else "inconclusive", why=f"{name} {named}")
    for name, value in right.get("values", {}).items():
        measured = [m.value for one in findings for m in one.measurements if m.name == name]
        if value not in measured:
            return Answer(verdict="wrong" if measured else "inconclusive", why=f"{name} {measured}")
    for option in right.get("options", ()):
        if option not in {action.option for one in findings for action in one.actions}:
            return Answer(verdict="inconclusive", why=f"no {option}")
    for words in right.get("says", ()):
        if not any(words in _said(one) for one in findings):
            return Answer(verdict="inconclusive", why=f"does not say {words}")
    return Answer(verdict=RIGHT)


def _said(finding: Finding) -> str:
    return f"{finding.title} {finding.why or ''}"


def rows(asked: Judged, corpus: Sequence[Paste]) -> Iterator[tuple[Paste, dict[str, Answer]]]:
    """The answers to each paste, by dress."""
    for paste in corpus:
        answers = {dress: asked.answer(paste, dress) for dress in dresses(paste.engine)}
        yield paste, {dress: answer for dress, answer in answers.items() if answer is not None}


def page(answered: Sequence[tuple[Paste, Mapping[str, Answer]]]) -> str:
    """The document, as Markdown."""
    names = list(dresses("flink"))
    letters = [chr(ord("a") + number) for number in range(len(names))]
    assert len(names) <= 26, "give the dresses other signs than letters"
    total = Counter(answer.verdict for _, answers in answered for answer in answers.values())
    told = ", ".join(f"{verdict} {total[verdict]}" for verdict in SIGNS)
    lines = [
        "# One pasted exception",
        "",
        "Generated by `python -m benchmarks.pastes --write` from the pastes under `fixtures/pastes`. Every failure",
        "is given to `flowdiag PATH` in every dress in which people paste it. *Right* (✓): the verdict, the exit code,",
        "the cause, the subject that the text names, its numbers, the options that help. *Inconclusive* (?): some of",
        "it is not said. *Wrong* (✗): another verdict, cause, subject or number, or healthy. –: the dress leaves",
        "out the line that says it; ·: not tried in this table, since only Spark measures it.",
        "",
        f"**{sum(total.values())} answers: {told}.**",
        "",
        *(f"- **{letter}** {name}" for letter, name in zip(letters, names, strict=True)),
        "",
    ]
    for engine in ("flink", "spark"):
        lines += [
            f"## {engine.capitalize()}",
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


def _sign(paste: Paste, dress: str, answers: Mapping[str, Answer]) -> str:
    if dress in answers:
        return SIGNS[answers[dress].verdict]
    return "–" if dressed(paste, dress) is None else "·"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--show", help="print the report of the pastes whose name holds this")
    parser.add_argument("--spark", action="store_true", help="measure all of them with Spark")
    parser.add_argument("--quick", action="store_true", help="without Spark, what can be")
    parser.add_argument("--dress", default="bare", help="in which --show puts them on")
    parser.add_argument("--measured", type=Path, help="keeps what Spark measures from run to run")
    given = parser.parse_args()
    from flowdiag.cli.spark.starter import SparkStarter

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())

        def session() -> SparkSession:
            if not started:
                started.append(stack.enter_context(SparkStarter.begin()))
                started[0].tune(0)
            return started[0].session()

        started: list[SparkStarter] = []
        if given.measured is not None:
            given.measured.mkdir(parents=True, exist_ok=True)
        asked = Judged(
            Path(folder),
            None if given.quick else session,
            given.measured,
            all_with_spark=given.spark,
        )
        if given.show is not None:
            _show(asked, given.show, given.dress)
            return 0
        answered = []
        for paste, answers in rows(asked, pastes()):
            answered.append((paste, answers))
            for dress, answer in answers.items():
                if answer.verdict != RIGHT:
                    print(f"{paste.id} | {dress}: {answer.verdict}: {answer.why}", flush=True)
        print(page(answered))
        print(f"{asked.measured} measured", file=sys.stderr)
    if given.write:
        PAGE.write_text(page(answered))
    return int(any(a.verdict == "wrong" for _, answers in answered for a in answers.values()))


def _show(asked: Judged, name: str, dress: str) -> None:
    from flowdiag.cli.render import table
    from flowdiag.cli.render.page import Page

    for paste in pastes():
        text = dressed(paste, dress)
        if name not in paste.id or text is None:
            continue
        print(f"===== {paste.id}: {asked.answer(paste, dress)}")
        report = asked.report(asked.inputs(text))
        if report is not None:
            print(table.render(report, Page(width=110)))


if __name__ == "__main__":
    raise SystemExit(main())
