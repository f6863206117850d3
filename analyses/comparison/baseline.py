"""Reads and writes baselines: findings that a team has accepted, each with a reason and a date until which it is muted.

A baseline is a TOML file of entries:

    [[known]]
    fingerprint = "1f0c5a…"     # of the finding in a report
    reason = "OPS-1234: the bigger machines come in January"
    until = 2027-01-31          # the last day of muting
    code = "CP101"              # these three for readers, and to check whether a report covers it
    job = "orders"
    title = "9 of 15 checkpoints expired"
    severity = "warning"        # muted up to this severity
    state = "recovered"         # muted while recovered; counts again when ongoing

Muted findings stay in the report and count for its verdict. They do not affect the exit code.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Baseline, BaselineEntry, Finding, Muting, Report
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.scope import reason_not_assessed
from flowdiag.parsers.errors import FlowdiagError, nearest

_TABLE: Final = "known"
_KEYS: Final = ("fingerprint", "reason", "until", "code", "job", "title", "severity", "state")
_NEEDED: Final = ("fingerprint", "reason", "until")
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{8,64}")
_HEAD: Final = re.compile(r"\s*\[\[\s*[\"']?known[\"']?\s*\]\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A known finding.

    Args:
        fingerprint, reason, until: the finding, the reason, and the last day of muting.
        severity, state: the worst severity and state that are muted.
        code, job, title: properties of the finding, for readers, and to check whether a report covers it.
        line: 1-based line number in the file.
    """

    fingerprint: str
    reason: str
    until: date
    severity: f.Severity = f.Severity.CRITICAL
    state: f.State = f.State.ONGOING
    code: str | None = None
    job: str | None = None
    title: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFindings:
    """The content of a baseline.

    Args:
        source: the file.
        entries: the entries in the order of the file.
    """

    source: str
    entries: tuple[Entry, ...]

    @classmethod
    def read(cls, path: str) -> Self:
        """Read a baseline.

        Raises:
            FlowdiagError: the file is unreadable or invalid. The message contains the line.
        """
        text = text_of(path)
        return cls(source=path, entries=entries_of(text, path))


def text_of(path: str) -> str:
    """Return the text of a baseline.

    Raises:
        FlowdiagError: the file is unreadable.
    """
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FlowdiagError(f"'{path}' is not UTF-8 text") from None
    except OSError as error:
        raise FlowdiagError(
            f"cannot read the baseline '{path}': {error.strerror or error}",
            hint=f"create it with flowdiag baseline REPORT -o {path}",
        ) from None


def entries_of(text: str, path: str) -> tuple[Entry, ...]:
    """Return the entries of a baseline.

    Raises:
        FlowdiagError: the file is not valid TOML, or an entry is invalid. The message contains the line.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, place = str(error).rstrip(")").partition(" (at ")
        line = re.search(r"line (\d+)", place)
        number = line[1] if line else text.rstrip("\n").count("\n") + 1
        problem = f"{what[:1].lower()}{what[1:]}"
        raise FlowdiagError(f"'{path}', line {number}: not valid TOML: {problem}") from None
    wrong = _ErrorAtLine(path, text)
    for key in document:
        if key != _TABLE:
            raise wrong(f"unknown key '{key}'", None, key, hint=nearest(key, [_TABLE]))
    tables = document.get(_TABLE, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise wrong("'known' is not a list of tables", None, _TABLE, hint="write [[known]]")
    found: dict[str, Entry] = {}
    for number, table in enumerate(tables):
        entry = _entry(table, number, wrong)
        if entry.fingerprint in found:
            before = found[entry.fingerprint].line
            raise wrong(f"'{entry.fingerprint}' is also in line {before}", number, "fingerprint")
        found[entry.fingerprint] = entry
    return tuple(found.values())


class _ErrorAtLine:
    """Creates errors that name the line of the problem."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._lines = path, text.split("\n")
        self._heads = [n for n, line in enumerate(self._lines, 1) if _HEAD.match(line)]

    def line(self, number: int | None, key: str | None = None) -> int | None:
        """Return the line of a key or of its entry, which tomllib does not report."""
        first = last = None
        if number is not None:
            if number >= len(self._heads):
                return None
            first = self._heads[number]
            last = self._heads[number + 1] - 1 if number + 1 < len(self._heads) else None
        begin = re.compile(rf"\s*\[*\s*[\"']?{re.escape(key)}[\"']?\s*(?:=|\.|\])") if key else None
        for n in range(first or 1, (last or len(self._lines)) + 1):
            if begin is not None and begin.match(self._lines[n - 1]):
                return n
        return first

    def __call__(
        self, message: str, number: int | None, key: str | None, hint: str | None = None
    ) -> FlowdiagError:
        line = self.line(number, key)
        place = f"'{self._path}'" + (f", line {line}" if line is not None else "")
        return FlowdiagError(f"{place}: {message}", hint=hint)


def _entry(table: Mapping[str, Any], number: int, wrong: _ErrorAtLine) -> Entry:
    for key in table:
        if key not in _KEYS:
            raise wrong(f"unknown key '{key}'", number, key, hint=nearest(key, _KEYS))
    for key in _NEEDED:
        if key not in table:
            raise wrong(f"the entry lacks '{key}'", number, None)
    for key, value in table.items():
        if key != "until" and not isinstance(value, str):
            raise wrong(f"'{key}' is not a string", number, key, hint="quote it")
    if not _FINGERPRINT.fullmatch(table["fingerprint"]):
        raise wrong(
            f"'{table['fingerprint']}' is not a fingerprint",
            number,
            "fingerprint",
            hint="copy it from a report: jq '.findings[].fingerprint'",
        )
    if not table["reason"].strip():
        raise wrong("the reason is empty", number, "reason", hint="write why it is accepted")
    words: dict[str, Any] = {}
    for key, kind in (("severity", f.Severity), ("state", f.State)):
        if key in table:
            try:
                words[key] = kind(table[key])
            except ValueError:
                raise wrong(
                    f"'{table[key]}' is not a valid {key}",
                    number,
                    key,
                    hint=f"write {', '.join(kind)}",
                ) from None
    return Entry(
        fingerprint=table["fingerprint"],
        reason=table["reason"],
        until=_day(table["until"], number, wrong),
        code=table.get("code"),
        job=table.get("job"),
        title=table.get("title"),
        line=wrong.line(number),
        **words,
    )


def _day(value: object, number: int, wrong: _ErrorAtLine) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise wrong(f"'{value}' is not a date", number, "until", hint="write 2027-01-31") from None


# --- muting ---------------------------------------------------------------------------------------


def with_baseline(
    report: Report, known: KnownFindings, today: date, *, private: bool = False
) -> Report:
    """Add `summary.baseline` to a report, with the status of each entry.

    Findings and verdict stay unchanged.

    Args:
        report: the complete report.
        known: the baseline.
        today: the current date, which determines the expired entries.
        private: whether names in the report are masked, so that names from the baseline must be left out.
    """
    entries = known.entries
    if private:
        entries = tuple(replace(entry, job=None, title=None) for entry in entries)
    statuses = [_entry_status(entry, report, today) for entry in entries]
    baseline = Baseline(source=known.source, date=today.isoformat(), entries=statuses)
    return msgspec.structs.replace(
        report, summary=msgspec.structs.replace(report.summary, baseline=baseline)
    )


def _entry_status(entry: Entry, report: Report, today: date) -> BaselineEntry:
    seen = [finding for finding in report.findings if finding.fingerprint == entry.fingerprint]
    status, text = _status(entry, seen, today)
    if status is Muting.GONE and entry.code is not None:
        unseen = reason_not_assessed(report, entry.code, entry.job)
        if unseen is not None:
            status, text = Muting.NOT_ASSESSED, f"it may still exist: {unseen}"
    return BaselineEntry(
        fingerprint=entry.fingerprint,
        code=seen[0].code if seen else entry.code,
        title=seen[0].title if seen else entry.title,
        reason=entry.reason,
        until=entry.until.isoformat(),
        status=status,
        text=text,
        findings=len(seen),
    )


def _status(entry: Entry, seen: Sequence[Finding], today: date) -> tuple[Muting, str]:
    if not seen:
        return Muting.GONE, "no longer occurs: remove it"
    if today > entry.until:
        return Muting.EXPIRED, f"was muted until {entry.until}, so it counts again"
    worst = _worst(seen)
    if worst.weight > entry.severity.weight:
        return Muting.WORSE, f"it is now {worst} instead of {entry.severity}, so it counts again"
    if _is_ongoing(seen) and entry.state is f.State.RECOVERED:
        return Muting.WORSE, "it is now ongoing instead of recovered, so it counts again"
    return Muting.MUTED, f"muted until {entry.until}"


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBaseline:
    """The text of a new baseline, and the fingerprints of added, accepted and unseen entries."""

    text: str
    added: tuple[str, ...]
    accepted: tuple[
        str, ...
    ]  # fingerprints of known entries that are muted again in their current state
    unseen: tuple[str, ...]


def add_findings(
    text: str,
    path: str,
    reports: Sequence[Report],
    *,
    least: f.Severity,
    reason: str | None,
    until: date | None,
    today: date,
) -> WrittenBaseline:
    """Add the findings of reports to a baseline. Its entries, comments and reasons are kept.

    Args:
        text: the current content; empty for a new file.
        path: the path of the file, for errors.
        reports: the reports whose findings become known.
        least: minimum severity of added findings.
        reason, until: reason and end date of added entries; `until` also applies to expired entries.
        today: the current date, which determines the expired entries.

    Raises:
        FlowdiagError: the file is invalid, or a finding to be muted lacks a reason or an end date.
    """
    import tomlkit

    entries = {entry.fingerprint: entry for entry in entries_of(text, path)}
    seen = _by_fingerprint(reports)
    new = [
        fingerprint
        for fingerprint, some in seen.items()
        if fingerprint not in entries and _worst(some).weight >= least.weight
    ]
    past = [
        fingerprint
        for fingerprint in seen
        if fingerprint in entries and today > entries[fingerprint].until
    ]
    _require_reason_and_end(new, past, reason, until)
    document = _document(text)
    tables: Any = document[_TABLE]
    accepted = [
        str(table["fingerprint"])
        for table in tables
        if _renew_muting(table, entries[table["fingerprint"]], seen, until, today)
    ]
    for fingerprint in new:
        table = tomlkit.table() if isinstance(tables, tomlkit.items.AoT) else tomlkit.inline_table()
        table.update(_values(seen[fingerprint], reason, until))
        tables.append(table)
    return WrittenBaseline(
        text=tomlkit.dumps(document),
        added=tuple(new),
        accepted=tuple(accepted),
        unseen=tuple(
            fingerprint
            for fingerprint, entry in entries.items()
            if fingerprint not in seen and _is_covered(entry, reports)
        ),
    )


def _by_fingerprint(reports: Iterable[Report]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for report in reports:
        for finding in report.findings:
            found.setdefault(finding.fingerprint, []).append(finding)
    return found


def _require_reason_and_end(
    new: Sequence[str], past: Sequence[str], reason: str | None, until: date | None
) -> None:
    """Require a reason for new entries, and an end date for new and expired entries."""
    if (new and reason is None) or ((new or past) and until is None):
        raise FlowdiagError(
            "muting requires a reason and an end date:"
            f" {fmt.plural(len(new) + len(past), 'finding')}",
            hint="--reason 'OPS-1234: …' --until 2027-01-31",
        )


def _document(text: str) -> Any:
    """Parse a baseline into a TOML document. A new file gets an empty list of known findings."""
    import tomlkit

    document = tomlkit.parse(text)
    if not text.strip():
        document.add(tomlkit.comment("Known findings of flowdiag, each muted until its date."))
    if _TABLE not in document:
        document.append(_TABLE, tomlkit.aot())
    return document


def _renew_muting(
    table: MutableMapping[str, Any],
    entry: Entry,
    seen: Mapping[str, Sequence[Finding]],
    until: date | None,
    today: date,
) -> bool:
    """Mute a finding again that became worse or whose entry expired. Return whether the entry changed."""
    some = seen.get(entry.fingerprint)
    if not some:
        return False
    worst, changed = _worst(some), False
    if worst.weight > entry.severity.weight:
        table["severity"], changed = worst.value, True
    if _is_ongoing(some) and entry.state is f.State.RECOVERED:
        table["state"], changed = f.State.ONGOING.value, True
    if today > entry.until and until is not None:
        table["until"], changed = until, True
    return changed


def _values(some: Sequence[Finding], reason: str | None, until: date | None) -> dict[str, Any]:
    """Return an entry for the current state of findings that share a fingerprint."""
    finding = max(some, key=lambda each: each.severity.weight)
    values = {
        "fingerprint": finding.fingerprint,
        "reason": reason,
        "until": until,
        "code": finding.code,
        "job": finding.subject.job_name,
        "title": printable(finding.title),
        "severity": finding.severity.value,
        "state": (f.State.ONGOING if _is_ongoing(some) else f.State.RECOVERED).value,
    }
    return {key: value for key, value in values.items() if value is not None}


def _worst(some: Sequence[Finding]) -> f.Severity:
    return max((finding.severity for finding in some), key=lambda severity: severity.weight)


def _is_ongoing(some: Sequence[Finding]) -> bool:
    return any(finding.state is f.State.ONGOING for finding in some)


def _is_covered(entry: Entry, reports: Sequence[Report]) -> bool:
    """Return whether any report assessed the finding of an entry. If so, a missing finding is certainly gone."""
    return any(
        entry.code and reason_not_assessed(each, entry.code, entry.job) is None for each in reports
    )
