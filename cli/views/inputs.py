"""Shows the inputs: a summary with problems, or with `-v` each input with its facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from os.path import basename
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import DOCUMENTS, Input, Report
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Aligned, Indented, heading, line, unbroken_line
from flowdiag.cli.text.page import PROSE, Page

DRIFT_SHOWN_MS: Final = 1_000  # a smaller offset may be the transfer time of a message
_NAMED: Final = 3  # inputs in a line about one kind of problem
_KINDS: Final = {
    "rest": "REST",
    "spark-rest": "REST",
    "archive": "archive",
    "prometheus": "metrics",
    "spark-events": "events",
}

_NUMBERS: Final = re.compile(r"[0-9a-f]{16,}|\d+")

InputRow = tuple[str, str, str]  # kind, name, facts


def inputs_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """Return the number, size and period of the inputs, and their problems."""
    read = [item for item in report.inputs if item.kind != "not-read"]
    unread = [item for item in report.inputs if item.kind == "not-read"]
    paths = words.paths_of(report, page)
    total = fmt.size(sum(item.bytes for item in read))
    facts = [f"{len(unread)} not read"] if unread and page.verbose else []
    facts += [words.time_span(report, clock)]
    number = fmt.plural(len(read), "input")
    alone = paths.show(read[0].source) if len(read) == 1 else ""
    text = " · ".join([f"{alone or number}, {total}", *facts])
    below = paths.folder.removesuffix("!")
    if alone and cell_len(f"Inputs  {text}") > page.width:
        text, below = " · ".join([f"{number}, {total}", *facts]), alone
    blocks: list[RenderableType] = [heading("Inputs", text)]
    if below:
        blocks.append(Indented(unbroken_line(below, "dim")))
    if page.verbose:
        blocks += [
            Indented(_Table(list(_rows(report, read, paths)))),
            *map(Indented, _problems(report, unread)),
        ]
    else:
        blocks += map(Indented, _problem_lines(report, unread, paths, page))
    return Group(*blocks)


# --- in lines -------------------------------------------------------------------------------------


def _problem_lines(
    report: Report, unread: Sequence[Input], paths: words.Paths, page: Page
) -> Iterator[Text]:
    yield from _unread_lines(unread, report.summary.assessed, paths, page)
    broken = [item for item in report.inputs if item.error and item.kind != "not-read"]
    for item in broken[:1]:
        more = f", and {len(broken) - 1} more (-v lists all)" if len(broken) > 1 else ""
        source = paths.show(item.source)
        yield unbroken_line(f"incomplete: {source}: {item.error}{more}", "yellow")
    strange = [item for item in report.inputs if item.not_understood]
    if strange:
        lines = fmt.plural(sum(item.not_understood for item in strange), "line")
        yield _problem(
            f"{lines} of known classes not recognized", strange, "-v shows examples", page
        )
    drifts = [item for item in report.inputs if _drift(item)]
    for item in sorted(drifts, key=lambda item: -abs(item.clock_offset_ms or 0))[:1]:
        yield unbroken_line(f"clock {_drift(item)}: {paths.show(item.source)}", "yellow")


def _unread_lines(
    unread: Sequence[Input], assessed: bool, paths: words.Paths, page: Page
) -> Iterator[Text]:
    # Unread inputs explain why there was nothing to diagnose.
    explained = 0 if assessed else _NAMED
    for item in unread[:explained]:
        reason = item.reason or "unknown kind"
        yield unbroken_line(f"not read: {paths.show(item.source)}: {reason}", "yellow")
    if rest := unread[explained:]:
        yield _problem(f"{len(rest)} not read", rest, "-v shows the reasons", page)


def _problem(what: str, items: Sequence[Input], hint: str, page: Page) -> Text:
    """Return a problem with the names of the inputs that fit into a line."""
    names = [printable(basename(item.source.rpartition("!")[2])) for item in items[:_NAMED]]
    room = min(page.width, PROSE) - len(f"  {what}: , … ({hint})")
    while len(names) > 1 and sum(len(name) + 2 for name in names) > room:
        names.pop()
    names += ["…"] if len(items) > len(names) else []
    return unbroken_line(f"{what}: {', '.join(names)} ({hint})", "yellow")


def _drift(item: Input) -> str:
    offset = item.clock_offset_ms or 0
    if abs(offset) < DRIFT_SHOWN_MS:
        return ""
    return f"{fmt.duration(abs(offset))} {'ahead' if offset > 0 else 'behind'}"


# --- with -v ---------------------------------------------------------------------------------------


class _Table:
    """The facts of each input, next to its name if the line is short enough, otherwise below."""

    def __init__(self, rows: Sequence[InputRow]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [
            max((cell_len(row[column]) for row in self._rows), default=0) for column in (0, 1, 2)
        ]
        side_by_side = sum(widths) + 4 <= options.max_width
        if side_by_side:
            yield Aligned(
                (
                    line(what, "dim"),
                    unbroken_line(name.ljust(widths[1])),
                    line(facts, "dim"),
                )
                for what, name, facts in self._rows
            )
            return
        yield Aligned(
            (line(what, "dim"), Group(unbroken_line(name), line(facts, "dim")))
            for what, name, facts in self._rows
        )


def _rows(report: Report, read: Sequence[Input], paths: words.Paths) -> Iterator[InputRow]:
    """Yield the inputs that were read: JobManagers first, documents last, and one row per series."""
    of_spark = {one.spark_version for one in report.data.applications or ()}
    if report.tool.command == "rate":
        of_spark |= {item.version for item in read}
    series: dict[tuple[str, str], list[Input]] = {}
    for item in sorted(read, key=lambda item: item.role != "jobmanager"):
        if item.kind in DOCUMENTS or item.kind == "prometheus":
            # Snapshots of one source differ in their times and IDs.
            series.setdefault((item.kind, _NUMBERS.sub("", item.source)), []).append(item)
        else:
            yield printable(item.role), paths.show(item.source), _input_facts(item, of_spark)
    for (kind, _), items in series.items():
        facts = _input_facts(items[0], of_spark)
        if len(items) > 1:
            size = fmt.size(sum(item.bytes for item in items))
            records = fmt.plural(sum(item.recognised for item in items), "record")
            facts = f"and {len(items) - 1} more like it · {size} · {records}"
        what = _KINDS.get(kind, items[0].role)
        yield printable(what), paths.show(items[0].source), facts


def _input_facts(item: Input, of_spark: AbstractSet[str | None]) -> str:
    engine = "Spark" if item.version in of_spark else "Flink"
    zone = item.zone or "" if item.kind not in DOCUMENTS else ""  # documents use UTC
    if zone and item.zone_from:
        given = item.zone_from.startswith("--")  # an option
        zone += f" ({item.zone_from if given else item.zone_from.replace('-', ' ')})"
    if drift := _drift(item):
        zone += f", clock {drift}"
    version = f"{engine} {item.version}" if item.version else ""
    records = fmt.plural(item.recognised, "record")
    return printable(" · ".join(filter(None, [version, fmt.size(item.bytes), records, zone])))


def _problems(report: Report, unread: Sequence[Input]) -> Iterator[Text]:
    for item in unread:
        yield unbroken_line(f"not read: {item.source}: {item.reason or 'unknown kind'}", "yellow")
    for item in report.inputs:
        if item.error and item.kind != "not-read":
            yield unbroken_line(f"incomplete: {item.source}: {item.error}", "yellow")
        if item.not_understood:
            sample = f', e.g. "{fmt.abbreviate(item.samples[0], 120)}"' if item.samples else ""
            lines = fmt.plural(item.not_understood, "line")
            yield line(f"not recognized: {item.source}: {lines} of known classes{sample}", "yellow")
