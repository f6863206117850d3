"""Checks that no output contains a secret of any kind from any place, and that other text stays
readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.contract.redact import clean, mask_secrets
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.faults import fault_of
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.build import failed_report
from flowdiag.analyses.report.evidence import Key, LocatedRecord
from flowdiag.analyses.selection.options import Privacy
from flowdiag.cli import app
from flowdiag.cli.output.console import print_message
from flowdiag.cli.render import RENDERERS
from flowdiag.cli.settings import Format
from flowdiag.cli.text.page import Page
from flowdiag.parsers.live.watching import redact
from flowdiag.parsers.secrets import is_secret_key, mask_credentials

from .cli import reports
from .collecting import collect_from_flink, collect_from_spark, recorded_spark
from .fake_server import NOT_FOUND, RecordedFlink, Reply, as_json, serving
from .kinds_of_secrets import KINDS, ORDINARY, encodings, secret_of

SEEDS = range(5)


def shown_of(secret: str, text: str) -> bool:
    """Return whether a text shows a secret, or its first or last part, in any encoding."""
    parts = (secret, secret[:8], secret[-8:])
    # Tables and Markdown break lines.
    joined = re.sub(r"[\s│]+", "", text)
    return any(
        encoding in text or encoding.replace(" ", "") in joined
        for part in parts
        for encoding in encodings(part)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_secret_is_quoted(kind: str) -> None:
    for seed in SEEDS:
        text, secret = secret_of(kind, seed)
        for mask in (mask_secrets, clean):
            for around in ("{}", "2026-01-01 10:00:00 INFO x.Y - {}", "x {}\nnext line"):
                assert not shown_of(secret, mask(around.format(text))), (mask, text)


@pytest.mark.parametrize("text", ORDINARY)
def test_text_without_secrets_stays_readable(text: str) -> None:
    assert mask_secrets(text) == mask_credentials(text) == text


@pytest.mark.parametrize(
    "key",
    [
        *("s3.secret-key", "fs.azure.account.key.x", "fs.azure.key", "x.apikey", "x.api-key"),
        *("x.auth-params", "service-key", "basic-auth", "sasl.jaas.config", "x.http-headers"),
        *("spark.ssl.keyPassword", "spark.x.accessKey", "spark.x.access.key", "oauthToken"),
    ],
)
def test_keys_that_flink_and_spark_hide(key: str) -> None:
    assert is_secret_key(key)


def report_with(text: str, **more: Any) -> Report:
    """Build a report with a text in every place that quotes a log, a configuration or a name."""
    located: dict[Key, LocatedRecord] = {(0, 1000, None): LocatedRecord(1, clean(text))}
    finding = replace(
        reports.expired(),
        title=f"Title {text}",
        explain=f"Explain {text}",
        why=f"Why {text}",
        subject=f.Subject(kind="job", job_id=reports.JOB.job_id),
        evidence=(f.Evidence(0, 1000),),
        evidence_total=None,
        measurements=(f.Measurement(name="x", value=text, population=text),),
    )
    return reports.build(
        reports.job_facts(is_failing=True),
        reports.outcome("CP101", "checkpoint-expired", finding),
        located=located,
        samples=[clean(text)],
        not_understood=3,
        **more,
    )


def shows_none_of(form: Format, kinds: Iterable[tuple[int, str]]) -> None:
    """Check that a format shows no secret of the given kinds."""
    for number, kind in kinds:
        text, secret = secret_of(kind, 7)
        privacy = Privacy(redact=number % 4 == 0)
        shown = RENDERERS[form](report_with(text, privacy=privacy), Page(width=100))
        assert not shown_of(secret, shown), (kind, text)
        failed = failed_report("checkpoints", fault_of(ValueError(text)))
        assert not shown_of(secret, RENDERERS[form](failed, Page(width=100))), (kind, text)


@pytest.mark.parametrize("number", range(len(Format)))
def test_no_format_shows_a_secret(number: int) -> None:
    # Each format gets its own share of the kinds, because HTML renders slowly.
    form = list(Format)[number]
    share = list(enumerate(KINDS))[number :: len(Format)]
    shows_none_of(form, share[:1] if form is Format.HTML else share)


@pytest.mark.full
@pytest.mark.parametrize("form", list(Format))
def test_no_format_shows_a_secret_of_any_kind(form: Format) -> None:
    shows_none_of(form, list(enumerate(KINDS))[:: 15 if form is Format.HTML else 1])


@pytest.mark.parametrize("form", list(Format))
def test_no_format_shows_a_secret_in_a_name(form: Format) -> None:
    for kind in ("jdbc-mysql", "aws-in-url", "github-classic", "jwt")[
        : 1 if form is Format.HTML else 4
    ]:
        text, secret = secret_of(kind, 7)
        subject = f.Subject(kind="task", task=text, host=text, job_id=reports.JOB.job_id)
        report = reports.build(
            reports.job_facts(is_failing=True, name=text),
            reports.outcome(
                "CP101", "checkpoint-expired", replace(reports.expired(), subject=subject)
            ),
            source=f"logs/{text}.log",
        )
        assert not shown_of(secret, RENDERERS[form](report, Page(width=100))), (kind, text)


def test_the_check_detects_a_planted_secret() -> None:
    for kind in KINDS:
        text, secret = secret_of(kind, 7)
        assert shown_of(secret, json.dumps({"excerpt": text})) and shown_of(secret, text)


def test_errors_warnings_and_traces_quote_no_secret(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in KINDS:
        text, secret = secret_of(kind, 3)
        print_message("warning", text, text)
        monkeypatch.setattr(app, "app", _raising(ValueError(text)))
        assert app.main(["rules", "--debug"]) == 4
        shown = capsys.readouterr()
        assert "Traceback" in shown.err and "ValueError" in shown.err
        assert not shown_of(secret, shown.err + shown.out), (kind, shown.err)


def _raising(error: Exception) -> Any:
    def app(**_: object) -> None:
        raise error

    return app


def test_collected_responses_contain_no_secret() -> None:
    for kind in KINDS:
        text, secret = secret_of(kind, 11)
        answer = {
            "root-exception": text,
            "all-exceptions": [{"exception": text, "stacktrace": f"at x\n{text}\nat y"}],
            "options": [{"key": "env.java.opts", "value": text}],
            "sparkProperties": [["spark.driver.extraJavaOptions", text]],
            "secret": [{"key": "s3.secret-key", "value": secret}, ["spark.x.password", secret]],
            "user-config": {"api.key": secret},
        }
        assert not shown_of(secret, json.dumps(redact(answer))), (kind, text)


def left_in(folder: Path) -> str:
    """Return all files under a folder, with their names, as one text."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "\n".join(f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in files)


def none_shown(text: str, seed: int) -> None:
    """Check that a text contains no secret of a seed."""
    for kind in KINDS:
        assert not shown_of(secret_of(kind, seed)[1], text), kind


def test_a_folder_collected_from_flink_contains_no_secret(tmp_path: Path) -> None:
    texts = [secret_of(kind, 13)[0] for kind in KINDS]
    flink = RecordedFlink()
    flink.answers["/jobmanager/config"] = [
        {"key": f"env.java.opts.{number}", "value": text} for number, text in enumerate(texts)
    ]
    flink.answers[f"/jobs/{flink.job_id}/config"]["execution-config"]["user-config"] = {
        f"argument.{number}": text for number, text in enumerate(texts)
    }
    flink.answers[f"/jobs/{flink.job_id}/exceptions"] = {
        "root-exception": f"java.lang.Exception: planted\nCaused by: {texts[0]}",
        "all-exceptions": [{"exception": text, "task": "enrich (1/4)"} for text in texts],
        "exceptionHistory": {"entries": [{"stacktrace": text} for text in texts]},
    }
    with serving(flink) as server:
        collect_from_flink(server.url, tmp_path / "c", ticks=1)
    stored = left_in(tmp_path / "c")
    assert "java.lang.Exception: planted" in stored and "env.java.opts.0" in stored
    none_shown(stored, 13)


def test_a_folder_collected_from_spark_contains_no_secret(tmp_path: Path) -> None:
    texts = [secret_of(kind, 17)[0] for kind in KINDS]
    answers = recorded_spark()
    for path, body in answers.items():
        if path.endswith("/environment"):
            body["sparkProperties"] += [[f"spark.x{n}", text] for n, text in enumerate(texts)]
        if path.endswith("/batches"):
            for batch, text in zip(body, cycle(texts), strict=False):
                batch["firstFailureReason"] = f"planted {text}"
        if path.endswith("/receivers"):
            body[0]["lastErrorMessage"] = "planted\n" + "\n".join(texts)

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        return as_json(answers[path]) if path in answers else NOT_FOUND

    with serving(respond) as server:
        collect_from_spark(server.url, tmp_path / "c", ticks=1)
    stored = left_in(tmp_path / "c")
    assert "planted" in stored
    none_shown(stored, 17)


def test_the_kinds_are_many_and_their_values_differ() -> None:
    assert len(KINDS) >= 60
    assert len({secret_of(kind, seed) for kind in KINDS for seed in SEEDS}) == len(KINDS) * 5


def test_masking_is_fast_on_adversarial_text() -> None:
    # Each of these took the whole timeout or more when the search started at the beginning of a key.
    for text in ("a" * 20_000 + "key", "key" * 2000, "secret:" * 700, "name: key " * 400):
        assert "withheld" not in mask_secrets(text)


def test_the_planted_text_reaches_every_place_of_a_document() -> None:
    marked = "QZXQZX"
    document = RENDERERS[Format.JSON](report_with(marked), Page(width=100))
    assert document.count(marked) >= 6  # title, why, explain, excerpt, measurement, sample
