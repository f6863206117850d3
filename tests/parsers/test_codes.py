"""Error and exit codes with a known meaning, and numbers that are not codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.codes import codes_in, families, find_codes
from tests.archives import FIXTURES, unpacked


def test_entries_are_complete() -> None:
    for family in families():
        assert family.source and family.title
        for code, entry in [*family.codes.items(), *family.classes.items()]:
            assert entry["means"] and not entry["means"].endswith("."), code
            assert not entry.get("check") or entry["check"].endswith("."), code
            assert len(entry["means"].split()) <= 25, code


def test_each_code_is_found_by_its_own_name() -> None:
    for family in families():
        for code in family.codes:
            shown = family.shown.format(code=code)
            assert shown in [one.code for one in find_codes(shown)], shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Container exited with a non-zero exit code 143", ["exit code 143"]),
        ("Process exited with exit code 239.", ["exit code 239"]),
        ("exitStatus=-104, diagnostics", ["exit code -104"]),
        ("Executor 3 on host exited with code 52 (exit code 52)", ["exit code 52"]),
        (
            "Error while fetching metadata with correlation id 3 : {orders=UNKNOWN_TOPIC_OR_PARTITION}",
            ["UNKNOWN_TOPIC_OR_PARTITION"],
        ),
        (
            "org.apache.kafka.common.errors.ProducerFencedException: There is a newer producer",
            ["PRODUCER_FENCED"],
        ),
        # Clients throw this class for their own timeouts as well.
        ("org.apache.kafka.common.errors.TimeoutException: Topic orders not present", []),
        ("java.sql.SQLException: ORA-01555: snapshot too old", ["ORA-01555"]),
        (
            "ERROR 1045 (28000): Access denied for user 'etl'@'10.0.0.7'",
            ["MySQL error 1045", "SQLSTATE 28000"],
        ),
        (
            "binlog truncated in the middle of event Error code: 1236; SQLSTATE: HY000.",
            ["MySQL error 1236", "SQLSTATE HY000"],
        ),
        ("ErrorCode: 0, SQLState: 53300", ["SQLSTATE 53300"]),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table `t` cannot be found. SQLSTATE: 42P01",
            ["TABLE_OR_VIEW_NOT_FOUND", "SQLSTATE 42P01"],
        ),
        (
            "[DELTA_CONCURRENT_APPEND] ConcurrentAppendException: Files were added",
            ["DELTA_CONCURRENT_APPEND"],
        ),
        ("Msg 1205, Level 13, State 51", ["SQL Server error 1205"]),
        (
            "io.grpc.StatusRuntimeException: UNAVAILABLE: io exception",
            ["gRPC UNAVAILABLE"],
        ),
        (
            "AmazonS3Exception: Slow Down (Service: Amazon S3; Status Code: 503; Error Code: SlowDown; Request ID: 1)",
            ["HTTP 503", "S3 SlowDown"],
        ),
        ("Server returned HTTP response code: 500 for URL: http://r:8081/subjects", ["HTTP 500"]),
        ("urllib.error.HTTPError: HTTP Error 503: Service Unavailable", ["HTTP 503"]),
        (
            "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: http://api/x",
            ["HTTP 429"],
        ),
        ("aiohttp.client_exceptions.ClientResponseError: 502, message='Bad Gateway'", ["HTTP 502"]),
        ("OSError: [Errno 28] No space left on device", ["ENOSPC"]),
        ('Cannot run program "python3": error=2, No such file or directory', ["ENOENT"]),
        (
            "Last state: Terminated, Reason: OOMKilled, Exit Code: 137",
            ["OOMKilled", "exit code 137"],
        ),
        ('Back-off pulling image "flink:9": ImagePullBackOff', ["ImagePullBackOff"]),
    ],
)
def test_codes(text: str, expected: list[str]) -> None:
    assert [code.code for code in codes_in(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "Removed 137 of 143 entries",
        "took 239 ms",
        "Finished job 137 with status FINISHED",
        "Received 404 records, 503 bytes",
        "500 Server errors, 404 Client errors",
        "Triggering checkpoint 500 (type=CHECKPOINT) @ 1700000000000",
        "INVALID_REQUEST from the payment provider",
        "[INFO] [main] state RUNNING_JOB",
        "SET TIME_ZONE = UTC",
        "HTTP/1.1 200 OK",
        "",
    ],
)
def test_numbers_are_not_codes(text: str) -> None:
    assert codes_in(text) == ()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("exit 239", ["exit code 239"]),
        ("137", ["exit code 137"]),
        ("53300", ["SQLSTATE 53300"]),
        ("ora 1555", []),
        ("ORA-01555", ["ORA-01555"]),
        ("http 429", ["HTTP 429"]),
        ("SlowDown", ["S3 SlowDown"]),
        (
            "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
            ["STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE"],
        ),
        ("CP101", []),
        ("checkpoint-expired", []),
    ],
)
def test_codes_in_questions_are_found(words: str, expected: list[str]) -> None:
    assert [code.code for code in find_codes(words)] == expected


def test_spark_explains_its_own_conditions() -> None:
    (found,) = codes_in("[CONNECT_URL_NOT_VALID] Invalid URL for Spark Connect") or codes_in(
        "[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] x"
    )
    assert found.family == "spark"
    assert "SQLSTATE" in found.meaning


@pytest.mark.parametrize("recorded", ["flink/1.20.5/healthy", "spark/3.5.7/stable"])
def test_logs_of_healthy_jobs_have_no_codes(recorded: str) -> None:
    logs = [*unpacked(FIXTURES / "recordings" / recorded).rglob("*.log")]
    assert logs
    for path in logs:
        for line in path.read_text(errors="replace").splitlines()[:1500]:
            assert codes_in(line) == (), line


@given(st.text(alphabet="ABERORa_1[]()=:, 0", max_size=400))
def test_no_text_raises(text: str) -> None:
    codes_in(text)
    find_codes(text)
