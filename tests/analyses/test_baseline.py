"""Baselines: reading, muting, expiry and writing."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from flowdiag.analyses.comparison.baseline import KnownFindings, add_findings, with_baseline
from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Muting, Report
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report.muting import muted_fingerprints
from flowdiag.analyses.report.transform import json_schema
from flowdiag.cli.exit_codes import ExitCode, exit_code
from flowdiag.cli.settings import FailOn, Settings
from flowdiag.parsers.errors import FlowdiagError

from ..cli.reports import JOB, build, expired, failing, job_facts, outcome, slow_taskmanager

WHOLE = '[[known]]\nfingerprint = "abcdef12"\nreason = "x"\nuntil = 2027-01-01\n'
TODAY, LATER = date(2027, 1, 15), date(2027, 1, 31)


def report(*findings: f.Finding, more: tuple[f.RuleOutcome, ...] = ()) -> Report:
    return build(
        job_facts(is_failing=bool(findings)),
        outcome("CP101", "checkpoint-expired", *findings),
        *more,
    )


def entry(one: Report, **changes: str) -> str:
    """Return an entry for the first finding of a report."""
    values = {
        "fingerprint": f'"{one.findings[0].fingerprint}"',
        "reason": '"OPS-1: soon"',
        "until": "2027-01-31",
        "code": '"CP101"',
        **changes,
    }
    return "[[known]]\n" + "".join(f"{key} = {value}\n" for key, value in values.items() if value)


def known(text: str, tmp_path: Path) -> KnownFindings:
    path = tmp_path / "known.toml"
    path.write_text(text, encoding="utf-8")
    return KnownFindings.read(str(path))


def judged(one: Report, text: str, tmp_path: Path, today: date = TODAY) -> tuple[Muting, Report]:
    made = with_baseline(one, known(text, tmp_path), today)
    assert made.summary.baseline is not None
    return made.summary.baseline.entries[0].status, made


def test_muted_findings_count_for_the_verdict_only(tmp_path: Path) -> None:
    one = report(expired())
    status, made = judged(one, entry(one), tmp_path)
    assert status is Muting.MUTED and muted_fingerprints(made) == {one.findings[0].fingerprint}
    assert made.summary.verdict == one.summary.verdict == "degraded"
    assert made.findings == one.findings
    assert exit_code(one, Settings()) is ExitCode.FOUND
    assert exit_code(made, Settings()) is ExitCode.CLEAR
    jsonschema.validate(json.loads(encode(made)), json_schema())


def test_findings_that_are_not_muted_still_fail(tmp_path: Path) -> None:
    one = failing()
    fingerprint = next(found for found in one.findings if found.code == "CP101").fingerprint
    text = entry(one, fingerprint=f'"{fingerprint}"')
    assert exit_code(judged(one, text, tmp_path)[1], Settings()) is ExitCode.FOUND


def test_muting_does_not_make_the_rest_assessed(tmp_path: Path) -> None:
    """Another job of the report could not be judged, so the report without the muted finding is inconclusive."""
    not_assessed = f.Inconclusive(reason="no log of it", job=JobKey("", "9" * 32))
    one = report(expired(), more=(outcome("CP201", "slow-taskmanager", not_assessed),))
    made = judged(one, entry(one), tmp_path)[1]
    assert made.summary.not_assessed == "no log of it"
    assert exit_code(made, Settings()) is ExitCode.NOT_ASSESSED
    assert exit_code(made, Settings(allow_inconclusive=True)) is ExitCode.CLEAR
    # The failing job itself is inconclusive as well, which adds nothing.
    own = f.Inconclusive(reason="the last checkpoint expired", job=JOB)
    same = report(expired(), more=(outcome("CP201", "slow-taskmanager", own),))
    assert exit_code(judged(same, entry(same), tmp_path)[1], Settings()) is ExitCode.CLEAR


@pytest.mark.parametrize(
    ("changes", "today", "status"),
    [
        ({"severity": '"info"'}, TODAY, Muting.WORSE),
        ({"severity": '"warning"', "state": '"recovered"'}, TODAY, Muting.WORSE),
        ({"severity": '"warning"', "state": '"ongoing"'}, TODAY, Muting.MUTED),
        ({}, LATER, Muting.MUTED),
        ({}, date(2027, 2, 1), Muting.EXPIRED),
        ({"until": '"2027-01-01"'}, TODAY, Muting.EXPIRED),
        ({"until": "2027-01-31T12:00:00Z"}, LATER, Muting.MUTED),
        ({"fingerprint": '"0123456789abcdef"'}, TODAY, Muting.GONE),
        ({"fingerprint": '"0123456789abcdef"', "code": '"CP301"'}, TODAY, Muting.NOT_ASSESSED),
        ({"fingerprint": '"0123456789abcdef"', "job": '"bills"'}, TODAY, Muting.NOT_ASSESSED),
    ],
)
def test_the_status_of_an_entry(
    changes: dict[str, str], today: date, status: Muting, tmp_path: Path
) -> None:
    one = report(expired())
    found, made = judged(one, entry(one, **changes), tmp_path, today)
    assert found is status
    counts = status is not Muting.MUTED
    assert exit_code(made, Settings()) is (ExitCode.FOUND if counts else ExitCode.CLEAR)
    assert exit_code(made, Settings(fail_on=FailOn.NEVER)) is ExitCode.CLEAR


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[known]]\nfingerprint = ", "line 2"),
        ('[[known]]\nfingerprint = "abcdef12"\nreson = "x"', "line 3: unknown key 'reson'"),
        ('[[known]]\nfingerprint = "abcdef12"\n', "line 1: the entry lacks 'reason'"),
        ('a = 1\n[[known]]\nfingerprint = "abcdef12"', "line 1: unknown key 'a'"),
        ("known = 3", "line 1: 'known' is not a list of tables"),
        ('[known]\nfingerprint = "abcdef12"', "line 1: 'known' is not a list of tables"),
        (
            f'# one\n{WHOLE}\n[[known]]\nfingerprint = "NOPE"\nreason = "x"\nuntil = 2027-01-01\n',
            "line 8: 'NOPE' is not a fingerprint",
        ),
        (
            '[[known]]\nfingerprint = "abcdef12"\nreason = "x"\nuntil = "soon"',
            "line 4: 'soon' is not a date",
        ),
        (
            '[[known]]\nfingerprint = "abcdef12"\nreason = " "\nuntil = 2027-01-01',
            "line 3: the reason is empty",
        ),
        (
            '[[known]]\nfingerprint = 12\nreason = "x"\nuntil = 2027-01-01',
            "line 2: 'fingerprint' is not a string",
        ),
        (
            f'{WHOLE}severity = "bad"',
            "line 5: 'bad' is not a valid severity",
        ),
        (
            2 * WHOLE,
            "line 6: 'abcdef12' is also in line 1",
        ),
    ],
)
def test_a_wrong_file_is_one_line_with_its_place(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FlowdiagError) as caught:
        known(text, tmp_path)
    assert words in caught.value.message and "known.toml" in caught.value.message
    assert "\n" not in caught.value.message


def test_binary_or_missing_baseline_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, words in (("binary", "UTF-8"), ("nowhere", "No such file"), (".", "directory")):
        with pytest.raises(FlowdiagError, match=words):
            KnownFindings.read(str(tmp_path / name))
    assert known("", tmp_path).entries == ()


def write(text: str, *reports: Report, **more: Any) -> Any:
    options: dict[str, Any] = {"reason": "OPS-1: soon", "until": LATER, "today": TODAY}
    options |= {"least": f.Severity.WARNING, **more}
    return add_findings(text, "known.toml", reports, **options)


def test_a_written_baseline_mutes_its_findings(tmp_path: Path) -> None:
    one = failing()
    made = write("", one)
    assert len(made.added) == len(one.findings) == 2
    muting = with_baseline(one, known(made.text, tmp_path), TODAY)
    assert exit_code(muting, Settings()) is ExitCode.CLEAR
    assert write(made.text, one).text == made.text


def test_reasons_comments_and_order_are_kept(tmp_path: Path) -> None:
    one = report(expired())
    text = "# ours\n\n" + entry(one, reason='"""because\nof that"""  # by hand') + "# the end\n"
    made = write(text, failing())
    assert made.text.startswith(text.removesuffix("# the end\n")) and "# the end" in made.text
    assert len(made.added) == 1 and not made.accepted
    assert len(known(made.text, tmp_path).entries) == 2


def test_an_array_of_inline_tables_is_a_baseline_too(tmp_path: Path) -> None:
    one = report(expired())
    fingerprint = one.findings[0].fingerprint
    text = f'known = [{{fingerprint = "{fingerprint}", reason = "x", until = 2027-01-31}}]\n'
    assert judged(one, text, tmp_path)[0] is Muting.MUTED
    made = write(text, failing())
    assert len(known(made.text, tmp_path).entries) == 2


def test_worse_or_expired_findings_are_muted_again(tmp_path: Path) -> None:
    one = report(expired(severity=f.Severity.CRITICAL))
    text = entry(one, severity='"warning"', until="2026-12-01")
    assert judged(one, text, tmp_path)[0] is Muting.EXPIRED
    made = write(text, one, reason=None)
    assert made.accepted == (one.findings[0].fingerprint,)
    assert judged(one, made.text, tmp_path)[0] is Muting.MUTED
    assert 'reason = "OPS-1: soon"' in made.text
    with pytest.raises(FlowdiagError, match="a reason and an end date"):
        write(text, one, until=None)


def test_nothing_is_muted_without_a_reason() -> None:
    for missing in ("reason", "until"):
        with pytest.raises(FlowdiagError, match="2 findings"):
            write("", failing(), **{missing: None})


def test_entries_without_a_finding_are_reported_and_kept() -> None:
    one = report(expired())
    made = write(entry(one), report(), reason=None, until=None)
    assert made.unseen == (one.findings[0].fingerprint,) and made.text == entry(one)
    other = build(job_facts(is_failing=False), outcome("CP201", "slow-taskmanager"))
    assert not write(entry(one), other, reason=None, until=None).unseen  # it did not look


def test_remarks_are_added_only_on_demand() -> None:
    one = report(expired(severity=f.Severity.INFO))
    assert not write("", one).added
    assert len(write("", one, least=f.Severity.INFO).added) == 1


def test_hostile_titles_stay_text(tmp_path: Path) -> None:
    evil = 'a"""\n[[known]]\nfingerprint = "x"\u202e\x1b[31m'
    made = write("", report(expired(title=evil)))
    (one,) = known(made.text, tmp_path).entries
    assert one.title is not None and "\n" not in one.title and "\x1b" not in made.text


def test_a_redacted_report_shows_no_names_of_the_file(tmp_path: Path) -> None:
    one = report(expired())
    text = entry(one, fingerprint='"0123456789abcdef"', job='"secret-job"', title='"secret title"')
    made = with_baseline(one, known(text, tmp_path), TODAY, private=True)
    assert "secret" not in encode(made).decode()


def test_the_worse_of_two_findings_with_one_fingerprint_decides(tmp_path: Path) -> None:
    """Reports of the first release contained duplicate fingerprints."""
    import msgspec

    one = report(expired())
    worse = msgspec.structs.replace(one.findings[0], severity=f.Severity.CRITICAL)
    both = msgspec.structs.replace(one, findings=[one.findings[0], worse])
    assert judged(both, entry(one, severity='"warning"'), tmp_path)[0] is Muting.WORSE
    assert slow_taskmanager().severity is f.Severity.CRITICAL
