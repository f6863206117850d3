"""Findings name the component that threw their exception, and explain the codes in its text."""

from __future__ import annotations

from pathlib import Path

from benchmarks.pastes import PasteJudge
from flowdiag.analyses.report.origins import codes_of, component_in

DENIED = (
    "com.amazonaws.services.s3.model.AmazonS3Exception: Access Denied "
    "(Service: Amazon S3; Status Code: 403; Error Code: AccessDenied; Request ID: 4A)"
)


def test_a_finding_has_its_component_and_codes(tmp_path: Path) -> None:
    judged = PasteJudge(tmp_path, None)
    report = judged.report(
        judged.inputs(
            f"org.apache.flink.util.FlinkRuntimeException: Could not write\n\tat a.B.c(B.java:1)\nCaused by: {DENIED}\n"
            "\tat com.amazonaws.http.AmazonHttpClient.execute(AmazonHttpClient.java:713)\n"
        )
    )
    assert report is not None
    finding = next(finding for finding in report.findings if finding.cause == "storage-failure")
    assert finding.component is not None
    assert finding.component.name == "s3"
    assert {"HTTP 403", "S3 AccessDenied"} <= {one.code for one in finding.codes}


def test_other_findings_have_neither() -> None:
    texts = [
        "12 of 40 checkpoints expired",
        "Checkpoint 137 of job 0123 expired before completing.",
    ]
    assert component_in(texts) is None
    assert codes_of(texts) == []
