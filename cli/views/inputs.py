"""What was read: in a line or two; each input with its facts where everything is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os.path import basename
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import DOCUMENTS, Input, Report
from flowdiag.cli.render.page import PROSE, Page
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Aligned, Indented, heading, line, unbroken

DRIFT_SHOWN_MS: Final = 1_000  # less is as likely the time that a message takes
_NAMED: Final = 3  # inputs of a kind of trouble that are named in a line
_KINDS: Final = {
    "rest": "REST",
    "spark-rest": "REST",
    "archive": "archive",
    "prometheus": "metrics",
    "spark-events": "events",
}

InputRow = tuple[str, str, str]  # what it is, its name, facts about it


def inputs_block(report: Report, page: Page, clock: words.Clock) -> RenderableType:
    """What was read, from when to when, and what could not be read."""
    read = [item for item in report.inputs if item.kind != "not-read"]
    unread = [item for item in report.inputs if item.kind == "not-read"]
    paths = words.paths_of(report, page)
    total = fmt.size(sum(item.bytes for item in read))
    facts = [f"{len(unread)} not read"] if unread and page.verbose else []
    facts += [words.time_span(report, clock)]
    number = fmt.plural(len(read), "input")
    alone = paths.show(read[0].source) if len(read) == 1 else ""
    told = " · ".join([f"{alone or number}, {total}", *facts])
    below = paths.folder
    if alone and cell_len(f"Inputs  {told}") > page.width:
        told, below = " · ".join([f"{number}, {total}", *facts]), alone
    blocks: list[RenderableType] = [heading("Inputs", told)]
    if below:
        blocks.append(Indented(unbroken(below, "dim")))
    if page.verbose:
        blocks += [
            Indented(_Table(list(_rows(report, read, paths)))),
            *map(Indented, _troubles(report, unread)),
        ]
    else:
        blocks += map(Indented, _troubles_in_lines(report, unread, paths, page))
    return Group(*blocks)


# --- in lines -------------------------------------------------------------------------------------


def _troubles_in_lines(
    report: Report, unread: Sequence[Input], paths: words.Paths, page: Page
) -> Iterator[Text]:
    """One line for each kind of trouble with the inputs."""
    if unread and not report.summary.assessed:
        # Nobody gave an input for fun: where nothing could be diagnosed, this is why.
        for item in unread[:_NAMED]:
            yield unbroken(
                f"not read: {paths.show(item.source)}: {item.reason or 'unknown kind'}", "yellow"
            )
        unread = unread[_NAMED:]
    if unread:
        yield _named(f"{len(unread)} not read", unread, "-v says why", page)
    broken = [item for item in report.inputs if item.error and item.kind != "not-read"]
    if broken:
        why = f"{paths.show(broken[0].source)}: {broken[0].error}"
        more = f", and {len(broken) - 1} more (-v lists all)" if len(broken) > 1 else ""
        yield unbroken(f"cut short: {why}{more}", "yellow")
    strange = [item for item in report.inputs if item.not_understood]
    if strange:
        lines = fmt.plural(sum(item.not_understood for item in strange), "line")
        yield _named(f"{lines} of known classes not understood", strange, "-v shows some", page)
    drifting = [item for item in report.inputs if _drift(item)]
    if drifting:
        worst = max(drifting, key=lambda item: abs(item.clock_offset_ms or 0))
        yield unbroken(f"clock {_drift(worst)}: {paths.show(worst.source)}", "yellow")


def _named(what: str, items: Sequence[Input], hint: str, page: Page) -> Text:
    """Trouble with the names of as many inputs as a line holds."""
    names = [printable(basename(item.source.rpartition("!")[2])) for item in items[:_NAMED]]
    room = min(page.width, PROSE) - len(f"  {what}: , … ({hint})")
    while len(names) > 1 and sum(len(name) + 2 for name in names) > room:
        names.pop()
    names += ["…"] if len(items) > len(names) else []
    return unbroken(f"{what}: {', '.join(names)} ({hint})", "yellow")


def _drift(item: Input) -> str:
    offset = item.clock_offset_ms or 0
    if abs(offset) < DRIFT_SHOWN_MS:
        return ""
    return f"{fmt.duration(abs(offset))} {'ahead' if offset > 0 else 'behind'}"


# --- everything -----------------------------------------------------------------------------------


class _Table:
    """Side by side, or where that is too wide, the facts below the name."""

    def __init__(self, rows: Sequence[InputRow]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [
            max((cell_len(row[column]) for row in self._rows), default=0) for column in (0, 1, 2)
        ]
        beside = sum(widths) + 4 <= options.max_width
        if beside:
            yield Aligned(
                (
                    line(what, "dim"),
                    unbroken(name.ljust(widths[1])),
                    line(facts, "dim"),
                )
                for what, name, facts in self._rows
            )
            return
        yield Aligned(
            (line(what, "dim"), Group(unbroken(name), line(facts, "dim")))
            for what, name, facts in self._rows
        )


def _rows(report: Report, read: Sequence[Input], paths: words.Paths) -> Iterator[InputRow]:
    """Every input that was read, JobManagers first."""
    engine = "Spark" if report.tool.command == "rate" else "Flink"
    for item in sorted(read, key=lambda item: item.role != "jobmanager"):
        what = _KINDS.get(item.kind, item.role)
        yield printable(what), paths.show(item.source), _input_facts(item, engine)


def _input_facts(item: Input, engine: str) -> str:
    zone = item.zone or "" if item.kind not in DOCUMENTS else ""  # those are in UTC
    if zone and item.zone_from:
        given = item.zone_from.startswith("--")  # an option keeps its name
        zone += f" ({item.zone_from if given else item.zone_from.replace('-', ' ')})"
    if drift := _drift(item):
        zone += f", clock {drift}"
    version = f"{engine} {item.version}" if item.version else ""
    records = fmt.plural(item.recognised, "record")
    return printable(" · ".join(filter(None, [version, fmt.size(item.bytes), records, zone])))


def _troubles(report: Report, unread: Sequence[Input]) -> Iterator[Text]:
    for item in unread:
        yield unbroken(f"not read: {item.source}: {item.reason or 'unknown kind'}", "yellow")
    for item in report.inputs:
        if item.error and item.kind != "not-read":
            yield unbroken(f"cut short: {item.source}: {item.error}", "yellow")
        if item.not_understood:
            sample = f', e.g. "{fmt.abbreviate(item.samples[0], 120)}"' if item.samples else ""
            lines = fmt.plural(item.not_understood, "line")
            yield line(f"not understood: {item.source}: {lines} of known classes{sample}", "yellow")
