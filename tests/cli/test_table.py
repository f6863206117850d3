"""The terminal report, as a user sees it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from flowdiag.analyses.contract.report import Input, Report
from flowdiag.analyses.flink import job as x
from flowdiag.analyses.model.keys import JobKey
from flowdiag.cli.render import table
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.timeline import timeline
from flowdiag.cli.text.words import clock_of

from . import reports

HEADER = """\
Inputs  2 inputs, 3.1 MiB · 2018-11-29 18:30:00 to 19:02:11 UTC+08:00
  1 not read: core.4711 (-v shows the reasons)
  clock 1.2 s behind: logs/taskmanager-3.log.gz
"""


def at_100(report: Report, *, verbose: int = 0) -> str:
    return table.render(report, Page(width=100, verbose=verbose))


ABOVE = """\
flowdiag checkpoints  failing: 1 critical, 1 warning · slow-taskmanager
  TaskManager tm-3 @ worker-3.example: 4 of its 4 subtasks acknowledged too late, 1.7 expected by
  placement

"""
JOB = """
Job  orders · a1b2c3d4e5f60718293a4b5c6d7e8f90 · Flink 1.18.1 · failing
  Checkpoints  32: 26 completed, 4 expired, 1 declined, 1 in flight
  18:30:00 #200  ✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓EEEE✓D✓…
                 ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁████▁▁▁
  ✓ completed   E expired   D declined   … in flight   median completed 1.5 s, longest 10 min

  TaskManager              subtasks  late  expected  ratio  by chance
  tm-3 @ worker-3.example         4     4       1.7   2.4×       4.8%
  tm-1 @ worker-1.example         4     1       1.7   0.6×       100%
  tm-2 @ worker-2.example         4     0       1.7     0×       100%
  late: subtasks that acknowledged an expired checkpoint; expected: the number that their placement
  predicts; by chance: probability of this many late by chance
"""
VERDICT = """
Verdict  failing: 1 critical, 1 warning · slow-taskmanager
  1.  TaskManager tm-3 @ worker-3.example: 4 of its 4 subtasks acknowledged too late, 1.7 expected
      by placement  CP201, high confidence
  first: Raise the timeout if the slow part is slow for a good reason
  set execution.checkpointing.timeout to 20 min (now 10 min)
"""


def test_a_failing_job_shows_its_culprit_first_and_last() -> None:
    findings = """
Findings  2
  CRITICAL  CP201 slow-taskmanager  ongoing · high confidence · since 18:54:00
  TaskManager tm-3 is slow
    All subtasks of one machine are late, those of the others are not.
    about     TaskManager tm-3 @ worker-3.example
    because   4 of its 4 subtasks acknowledged too late, 1.7 expected by placement
    measured  late ratio: 2.4× (threshold 2×)
    evidence  logs/jobmanager.log:8991
                Late message for now expired checkpoint 224 from Map-2

  WARNING  CP101  4 of 31 checkpoints expired, up to 4 in a row
  -v shows all findings with evidence and remedies
"""
    assert at_100(reports.failing()) == f"{ABOVE}{HEADER}{JOB}{findings}{VERDICT}"


def test_verbose_shows_everything() -> None:
    assert (
        at_100(reports.failing(), verbose=1)
        == f"""{ABOVE}\
Inputs  2 inputs, 3.1 MiB · 1 not read · 2018-11-29 18:30:00 to 19:02:11 UTC+08:00
  jobmanager   logs/jobmanager.log
               Flink 1.18.1 · 3.1 MiB · 412 records · UTC+08:00 (trigger timestamps)
  taskmanager  logs/taskmanager-3.log.gz
               Flink 1.18.1 · 43.9 KiB · 61 records · UTC+08:00 (transitions), clock 1.2 s behind
  not read: logs/core.4711: binary data
{JOB}
Findings  2
  CRITICAL  CP201 slow-taskmanager  ongoing · high confidence · since 2018-11-29 18:54:00
  TaskManager tm-3 is slow
    All subtasks of one machine are late, those of the others are not.
    about     TaskManager tm-3 @ worker-3.example
    because   4 of its 4 subtasks acknowledged too late, 1.7 expected by placement
    measured  late ratio: 2.4× (threshold 2×; 3 TaskManagers)
    votes     +2 late-acknowledgements: 4 of 5 come from tm-3
              +1 busy-time: tm-3 is busiest
    evidence  logs/jobmanager.log:8991
                Late message for now expired checkpoint 224 from Map-2

  WARNING  CP101 checkpoint-expired  ongoing · high confidence · since 2018-11-29 18:54:00
  4 of 31 checkpoints expired, up to 4 in a row
    A checkpoint expires when one subtask has not acknowledged it in time.
    measured  expired checkpoints: 4 (threshold 1; 31 that ended)
              timeout: 10 min
    evidence  logs/jobmanager.log:8812
                2018-11-29 18:43:04,123 INFO  o.a.f.r.checkpoint.CheckpointCoordinator - Checkpoint
                224 of job a1b2 expired before completing.
              logs/jobmanager.log:8990
                Checkpoint 225 of job a1b2 expired before completing.
              … 2 more
    to do     1.  Raise the timeout if the slow part is slow for a good reason
                  execution.checkpointing.timeout: now 10 min (configured), try 20 min (needs a
                  restart)
                  risk: a failure throws the job back further
                  check: checkpoints complete

Rules  1 of 3 rules are clear
  CP101 checkpoint-expired  found  Checkpoint expired
  CP104 checkpoint-growing  clear  Checkpoint growing
  CP201 slow-taskmanager  found    Slow taskmanager
{VERDICT}"""
    )


def test_healthy_job() -> None:
    assert (
        at_100(reports.healthy()).removeprefix(HEADER)
        == """
Job  orders · a1b2c3d4e5f60718293a4b5c6d7e8f90 · Flink 1.18.1 · healthy
  Checkpoints  32: 32 completed
  18:30:00 #200  ✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓✓
                 ▄▄▄▄▅▅▅▅▅▅▅▆▆▆▆▆▆▆▇▇▇▇▇▇▇███████
  ✓ completed   median completed 1.62 s, longest 2.24 s

Verdict  healthy
  2 of 2 rules are clear
"""
    )


def test_an_inconclusive_job_lists_missing_inputs() -> None:
    assert (
        at_100(reports.inconclusive()).removeprefix(HEADER)
        == """
Job  orders · a1b2c3d4e5f60718293a4b5c6d7e8f90 · Flink 1.18.1 · inconclusive
  Checkpoints  1: 1 in flight
  18:30:00 #200  …
  … in flight

Not assessed  1 of 2 rules are clear
  CP101 checkpoint-expired  no input shows how checkpoints ended; add the checkpoint history of the
                            job

Verdict  inconclusive: no input shows how checkpoints ended
  next: get the checkpoint history of the job. This shows duration, size and failures of each
  checkpoint
  run: curl -s http://JOBMANAGER:8081/jobs/a1b2c3d4e5f60718293a4b5c6d7e8f90/checkpoints
"""
    )


def test_nothing_to_diagnose() -> None:
    assert (
        at_100(reports.nothing())
        == """\
Inputs  2 inputs, 3.1 MiB · 2018-11-29 18:30:00 to 19:02:11 UTC+08:00
  not read: logs/core.4711: binary data
  clock 1.2 s behind: logs/taskmanager-3.log.gz

Verdict  nothing to diagnose
  No input contains a checkpoint event. Not assessed does not mean healthy.
"""
    )


@pytest.mark.parametrize("width", [40, 60, 100, 240])
def test_lines_fit_the_terminal_without_loss(width: int) -> None:
    shown = table.render(reports.failing(), Page(width=width, verbose=1))
    assert max(map(len, shown.splitlines())) <= width
    words = "".join(shown.split())
    for part in ("worker-3.example", "execution.checkpointing.timeout", "jobmanager.log:8812"):
        assert part in words
    assert "jobmanager.log:8812\n" in shown  # a path is never broken


def test_without_a_terminal_nothing_is_wrapped_or_cut() -> None:
    shown = table.render(reports.failing(), Page(width=10_000))
    assert (
        "tm-3 @ worker-3.example: 4 of its 4 subtasks acknowledged too late, 1.7 expected" in shown
    )
    assert not any(line.endswith(" ") for line in shown.splitlines())


def test_ascii_encodings_get_ascii_characters() -> None:
    shown = table.render(reports.failing(), Page(width=100, unicode=False))
    assert shown.isascii()
    assert "18:30:00 #200  ........................EEEE.D.~" in shown
    assert "________________________####___" in shown


def test_color_is_optional() -> None:
    assert "\x1b[" not in table.render(reports.failing(), Page(width=100))
    assert "\x1b[1;31m" in table.render(reports.failing(), Page(width=100, color=True))


def test_log_text_is_not_markup() -> None:
    shown = table.render(reports.hostile(), Page(width=200, color=True))
    assert "[red]" in shown  # shown, not obeyed
    assert "\u202e" not in shown
    assert "\x1b[31m</script>" not in shown
    assert all("::error::x" not in line[:4] for line in shown.splitlines())


def test_verbose_lists_every_rule() -> None:
    assert "CP104 checkpoint-growing  clear" in at_100(reports.failing(), verbose=1)


def test_many_checkpoints_share_cells_and_the_worst_is_shown() -> None:
    many = [reports.checkpoint(number) for number in range(3000)]
    many[1234] = reports.checkpoint(1234, x.Status.FAILED)
    report = reports.build(reports.job_facts(is_failing=False, checkpoints=tuple(many)))
    shown = at_100(report)
    assert "one cell shows the worst of 7 checkpoints" in shown
    assert shown.count("F") >= 1
    assert "  11-29 18:30 #200   ✓✓" in shown  # longer than a day: with the date


def test_restarts_separate_the_timeline() -> None:
    runs = [reports.checkpoint(n, run=1 + n // 3) for n in range(6)]
    job = reports.build(reports.job_facts(is_failing=False, checkpoints=tuple(runs))).data.jobs
    assert job is not None
    picture = timeline(job[0].checkpoints, clock_of(reports.healthy()), 80)
    assert [cell.kind for cell in picture.rows[0].cells] == [
        *["completed"] * 3,
        "break",
        *["completed"] * 3,
    ]


def test_several_jobs_are_named() -> None:
    other = JobKey("", "b" * 32)
    report = reports.failing()
    jobs = report.data.jobs
    assert jobs is not None
    jobs.append(msgspec.structs.replace(jobs[0], job_id=other.job_id))
    shown = at_100(report)
    assert "Jobs  2: 2 failing" in shown or shown.count("\nJob  orders") == 2
    assert "WARNING  CP101  4 of 31 checkpoints expired, up to 4 in a row · orders" in shown
    assert "placement · job orders CP201" in " ".join(shown.split())
    assert "about     job orders" in at_100(report, verbose=1)


def test_inputs_take_one_line_without_problems() -> None:
    report = reports.healthy()
    answer = msgspec.structs.replace(report.inputs[0], kind="rest", role="unknown", bytes=500)
    report.inputs[1:] = [
        msgspec.structs.replace(answer, source=f"logs/rest/{number}.json") for number in range(400)
    ]
    assert at_100(report).startswith(
        "Inputs  401 inputs, 3.2 MiB · 2018-11-29 18:30:00 to 19:02:11 UTC+08:00\n\nJob  "
    )
    assert re.search(r"REST +logs/rest/0\.json\s+and 399 more like it", at_100(report, verbose=1))
    assert "Inputs  logs/jobmanager.log, 3.1 MiB · " in at_100(
        msgspec.structs.replace(report, inputs=report.inputs[:1])
    )


def test_an_archive_is_shown_by_its_path() -> None:
    report = reports.healthy()
    log, folder = report.inputs[0], "recordings/of/a/cluster/with/a/long/name/hot-key.tar.zst"
    report.inputs[:] = [
        msgspec.structs.replace(log, source=f"{folder}!{name}-{'of-the-cluster' * 4}.log")
        for name in ("jobmanager", "taskmanager")
    ]
    assert at_100(report).splitlines()[1] == f"  {folder}"


def test_input_problems_take_one_line_per_kind() -> None:
    report = reports.healthy()
    log, unread = report.inputs[0], report.inputs[2]
    report.inputs[:] = [
        msgspec.structs.replace(log, source=f"{number}.log", error="ends early", not_understood=4)
        for number in range(30)
    ]
    report.inputs.extend(msgspec.structs.replace(unread, source=f"x/{n}.png") for n in range(50))
    assert at_100(report).partition("\n\n")[0].splitlines()[1:] == [
        "  50 not read: 0.png, 1.png, 2.png, … (-v shows the reasons)",
        "  incomplete: 0.log: ends early, and 29 more (-v lists all)",
        "  120 lines of known classes not recognized: 0.log, 1.log, 2.log, … (-v shows examples)",
    ]
    assert "incomplete: 29.log: ends early" in at_100(report, verbose=1)


def test_documents_are_cited_by_byte_and_dated_by_content() -> None:
    report = reports.build(
        reports.job_facts(is_failing=True),
        reports.outcome("CP101", "checkpoint-expired", reports.expired()),
        kind="archive",
        source="archive.json",
    )
    undated = [
        Input(
            **{
                **{name: getattr(item, name) for name in item.__struct_fields__},
                "first": None,
                "last": None,
                "zone": None,
            }
        )
        for item in report.inputs
    ]
    report.inputs[:] = undated
    shown = at_100(report)
    assert "evidence  archive.json at byte 1000\n" in shown
    assert "2018-11-29 10:30:00 to 11:07:00 UTC" in shown


@pytest.mark.parametrize("verbose", [0, 1])
def test_numbers_of_a_list_ascend(verbose: int) -> None:
    """Each list of culprits and remedies begins with 1 and skips no number."""
    culprits = []
    for name in ("tm-3", "tm-4", "tm-5"):
        found = reports.slow_taskmanager()
        subject = msgspec.structs.replace(found.subject, taskmanager=name, host=f"{name}.example")
        culprits.append(replace(found, subject=subject))
    report = reports.build(
        reports.job_facts(is_failing=True),
        reports.outcome("CP101", "checkpoint-expired", reports.expired()),
        reports.outcome("CP201", "slow-taskmanager", *culprits),
    )
    shown = table.render(report, Page(width=100, verbose=verbose))
    numbers = [int(found) for found in re.findall(r"(?m)^ *(\d+)\. ", shown)]
    assert {1, 2, 3} <= set(numbers)
    assert all(after in (1, before + 1) for before, after in pairwise([0, *numbers]))
