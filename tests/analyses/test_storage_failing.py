"""CP312: if several tasks get the same storage error, no task is the culprit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.model.finding import Confidence, Finding, Severity, State, Verdict
from flowdiag.analyses.report.verdicts import judge

from .judged import outcomes_of
from .workbench import Bench

WRAPPED = (
    "java.lang.Exception: Could not materialize checkpoint {number} for operator {task} ({index}/4)#0.\n"
    "Caused by: java.io.IOException: Could not flush to file and close the file system output stream to "
    "hdfs://nn/flink/checkpoints/0a1b2c3d4e5f60718293a4b5c6d7e8f9/chk-{number}/a in order to obtain the "
    "stream state handle\n"
    "Caused by: {cause}"
)
FULL = "java.io.IOException: No space left on device"
WORDS = [
    (FULL, "is full"),
    ("org.apache.hadoop.security.AccessControlException: Permission denied: user=flink", "denies"),
    (
        "java.io.IOException: Mkdirs failed to create file:/data/checkpoints/0a1b2c3d4e5f/chk-6",
        "is not writable",
    ),
    ("java.io.FileNotFoundException: /data/chk-6/a (Read-only file system)", "is not writable"),
    (
        "com.amazonaws.services.s3.model.AmazonS3Exception: Slow Down (Status Code: 503)",
        "throttles",
    ),
]


def refused(cause: str, who: list[tuple[str, int]], checkpoints: int = 4) -> Bench:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    for checkpoint in job.declined(checkpoints):
        for task, index in who:
            job.refuses(
                checkpoint,
                task,
                index,
                WRAPPED.format(number=checkpoint.id, task=task, index=index + 1, cause=cause),
            )
    return job


def culprits(job: Bench) -> list[tuple[str, str, str | None, int | None]]:
    found = judge(outcomes_of(RULES, job.facts())).culprits
    return [(c.code, c.subject.kind, c.subject.task, c.subject.subtask_index) for c in found]


@pytest.mark.parametrize(("cause", "word"), WORDS)
def test_the_same_error_on_several_taskmanagers_blames_the_storage(cause: str, word: str) -> None:
    job = refused(cause, [("enrich", 0), ("enrich", 1), ("aggregate", 4)])
    outcomes = outcomes_of(RULES, job.facts())
    found = judge(outcomes)
    assert (found.verdict, found.cause) == (Verdict.FAILING, "storage-failure")
    assert culprits(job) == [("CP312", "storage", None, None)]
    (finding,) = [f for o in outcomes if o.code == "CP312" for f in o.findings]
    assert (finding.confidence, finding.state, finding.count) == (
        Confidence.HIGH,
        State.ONGOING,
        4,
    )
    assert f"(hdfs://nn/flink/checkpoints) {word}" in finding.title
    assert "since checkpoint 6" in finding.explain


@pytest.mark.parametrize("managers", [1, 2])
def test_logs_of_taskmanagers_alone_show_failed_snapshots(managers: int) -> None:
    job = Bench()
    for number in range(6, 10):
        for index in range(2):
            cause = WRAPPED.format(number=number, task="enrich", index=index + 1, cause=FULL)
            job.happens(
                "async-failure",
                number,
                cause=cause,
                task="enrich",
                subtask_index=index,
                taskmanager=f"tm-{min(index + 1, managers)}",
                checkpoint=number,
            )
    found = [(o.code, f) for o in outcomes_of(RULES, job.facts()) for f in o.findings]
    assert {code for code, _ in found} == {"CP301" if managers == 1 else "CP312"}
    if managers == 2:
        assert "4 checkpoints failed" in found[0][1].title


def test_errors_of_one_subtask_blame_that_subtask() -> None:
    assert culprits(refused(FULL, [("enrich", 2)])) == [("CP301", "subtask", "enrich", 2)]


def test_errors_on_one_taskmanager_do_not_blame_the_storage() -> None:
    job = Bench()
    on_one = [who for who in job.on("tm-2") if who[0] != "Source: orders"]
    assert len(on_one) > 2
    assert ("CP312", "storage", None, None) not in culprits(refused(FULL, on_one))


def test_an_unrelated_exception_of_several_subtasks_does_not_blame_the_storage() -> None:
    job = Bench()
    for checkpoint in job.declined(4):
        for who in (("enrich", 0), ("enrich", 1)):
            job.refuses(checkpoint, *who, "java.lang.IllegalStateException: cannot encode amount")
    found = culprits(job)
    assert [code for code, *_ in found] == ["CP301"]


def test_the_jobmanager_alone_is_enough() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    job.fails(
        "Could not finalize the pending checkpoint 6. Failure reason: Failure to finalize checkpoint.\n"
        f"Caused by: {FULL}",
        3,
    )
    assert culprits(job) == [("CP312", "storage", None, None)]


def test_storage_errors_without_a_task_are_a_hint() -> None:
    """A log at WARN contains only `Failed to trigger or complete checkpoint` and the deepest cause."""
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    job.fails(f"{FULL} (state of one key)", 5)
    found = [x for o in outcomes_of(RULES, job.facts()) if o.code == "CP312" for x in o.findings]
    assert [x.confidence for x in found] == [Confidence.LOW]
    assert "The logs do not show whether" in found[0].explain


def test_a_storage_failure_is_recovered_once_checkpoints_complete() -> None:
    job = refused(FULL, [("enrich", 0), ("enrich", 1)])
    job.completes(6)
    found = judge(outcomes_of(RULES, job.facts()))
    assert found.verdict is Verdict.DEGRADED
    assert found.culprits[0].state is State.RECOVERED


def test_a_simultaneous_hot_key_is_named_as_well() -> None:
    job = Bench(interval_s=30, timeout_s=60)
    job.completes(5)
    for _ in range(4):
        (declined,) = job.declined()
        for who in (("enrich", 0), ("enrich", 1)):
            job.refuses(declined, *who, FULL)
        (expired,) = job.expires()
        job.acknowledgements(expired, [("aggregate", 3), *job.everyone("Sink: deliver")])
    job.loaded(
        {
            ("enrich", None): {"busy": 5.0, "idle": 0.0, "back_pressured": 990.0},
            ("aggregate", None): {"records_in": 50.0, "busy": 20.0},
            ("aggregate", 3): {"records_in": 1500.0, "busy": 995.0, "input_queue": 30.0},
        },
        input_queue=1.0,
    )
    assert {(kind, task, index) for _, kind, task, index in culprits(job)} == {
        ("storage", None, None),
        ("subtask", "aggregate", 3),
    }


BARE = (
    "org.apache.flink.runtime.checkpoint.CheckpointException: Could not finalize the pending checkpoint {}. "
    "Failure reason: Failure to finalize checkpoint."
)


def found_by(job: Bench) -> Finding:
    outcomes = outcomes_of(RULES, job.facts())
    (finding,) = [f for o in outcomes if o.code == "CP312" for f in o.findings]
    assert judge(outcomes).cause == "storage-failure"
    assert [c for c in culprits(job) if c[1] != "storage"] == []
    return finding


@pytest.mark.parametrize("text", [BARE, "Failure to finalize checkpoint."])  # the log, and REST
def test_a_failed_finalization_points_to_the_storage(text: str) -> None:
    job = Bench()
    job.completes(5)
    for number in (6, 7, 8):
        job.fails(text.format(number))
    failed = [replace(c, reason_kind="finalize") for c in job.checkpoints if c.reason]
    job.checkpoints[-len(failed) :] = failed
    finding = found_by(job)
    assert (finding.state, finding.severity, finding.count) == (
        State.ONGOING,
        Severity.CRITICAL,
        3,
    )
    assert finding.confidence is Confidence.MEDIUM
    assert "could not write the metadata, since checkpoint 6" in finding.explain


@pytest.mark.parametrize(("cause", "word"), WORDS)
def test_checkpoints_that_fail_before_they_have_a_number_count(cause: str, word: str) -> None:
    job = Bench()
    job.completes(5)
    for minute in range(4):
        job.happens("not-triggered", 300 + 60 * minute, cause=cause)
    finding = found_by(job)
    assert word in finding.title
    assert "4 checkpoints failed" in finding.title
    assert (finding.state, finding.severity) == (State.ONGOING, Severity.CRITICAL)
    assert finding.first_us == job.at(300)
    job.now_s = 600
    job.completes(2)
    assert found_by(job).state is State.RECOVERED


def test_checkpoints_not_triggered_for_other_reasons_are_not_storage_failures() -> None:
    job = Bench()
    job.completes(5)
    for minute in range(4):
        job.happens("not-triggered", 300 + 60 * minute, cause="Trigger checkpoint failure.")
    outcomes = outcomes_of(RULES, job.facts())
    assert not [f for o in outcomes if o.code == "CP312" for f in o.findings]


def test_early_trigger_failures_are_not_due_to_finished_tasks() -> None:
    job = Bench()
    job.completes(5)
    for minute in range(6):
        job.happens("not-triggered", 300 + 60 * minute, cause="Trigger checkpoint failure.")
    (finding,) = [
        f for o in outcomes_of(RULES, job.facts()) if o.code == "CP107" for f in o.findings
    ]
    assert finding.cause is None
    assert "before the JobManager contacts any task" in finding.explain
    assert [action.option for action in finding.actions] == [None]


@pytest.mark.parametrize(
    "cause",
    [
        "java.io.IOException: Target file hdfs://nn/flink/checkpoints/0af/chk-6/_metadata already exists.",
        "org.apache.hadoop.fs.FileAlreadyExistsException: /ck/0af/chk-6/_metadata for client 10.0.0.7 already exists",
        "java.nio.file.FileAlreadyExistsException: /flink/checkpoints/0af/chk-6",
    ],
)
def test_files_of_another_run_in_the_checkpoint_directory(cause: str) -> None:
    found = judge(outcomes_of(RULES, refused(cause, [("enrich", 0), ("aggregate", 4)]).facts()))
    assert found.cause == "checkpoint-directory-shared"


def test_an_existing_file_of_a_sink_is_unrelated_to_checkpoints() -> None:
    cause = (
        "org.apache.hadoop.fs.FileAlreadyExistsException: /warehouse/orders/part-0-1 already exists"
    )
    found = judge(outcomes_of(RULES, refused(cause, [("enrich", 0), ("aggregate", 4)]).facts()))
    assert found.cause != "checkpoint-directory-shared"
