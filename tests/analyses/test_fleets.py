"""One finding for a symptom that many subjects share (`fleets`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from flowdiag.analyses.fleets import FLEET, merge_fleets
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.report.stories import link_findings
from flowdiag.analyses.report.verdicts import pairs_of, report_order

JOB = JobKey("", "a" * 32)


def collecting(number: int, share: float, **changes: object) -> f.Finding:
    """Return a finding about a TaskManager that spends this share of its time in garbage collection."""
    name = f"tm-{number}"
    made = f.Finding(
        job=JOB,
        severity=f.Severity.WARNING,
        state=f.State.ONGOING,
        subject=f.Subject(kind="taskmanager", job_id=JOB.job_id, taskmanager=name),
        title=f"{name} spends {share:.0%} of its time in garbage collection",
        why=f"{name}: {share:.0%} of its time is spent in garbage collection",
        explain="Its tasks pause.",
        cause="garbage-collection",
        first_us=number,
        last_us=number + 10,
        measurements=(f.Measurement(name="gc-share", value=share, unit="share", threshold=0.2),),
        evidence=(f.Evidence(number, 0),),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def merged(findings: Sequence[f.Finding], total: int | None = 500) -> tuple[f.Finding, ...]:
    outcome = f.RuleOutcome(
        code="SK104", name="garbage-collection", title="", core=False, findings=tuple(findings)
    )
    return merge_fleets([outcome], lambda job, kind: total)[0].findings


def test_a_shared_symptom_is_one_finding_about_the_worst() -> None:
    (whole,) = merged([collecting(n, 0.24 + n / 100) for n in range(1, 21)])
    assert whole.title.startswith("20 of 500 TaskManagers have the same problem. Worst: tm-20 spe")
    assert whole.why is not None and whole.why.endswith("to 19 of the other 499 TaskManagers")
    assert whole.subject.taskmanager == "tm-20"
    assert [each.taskmanager for each in whole.subjects[:3]] == ["tm-20", "tm-19", "tm-18"]
    assert (whole.first_us, whole.last_us, whole.evidence_total) == (1, 30, 20)
    values = {item.name: item.value for item in whole.measurements}
    assert values["affected"] == 20 and values["gc-share-median"] == pytest.approx(0.345)


def test_few_subjects_keep_their_findings() -> None:
    few = [collecting(n, 0.3) for n in range(FLEET - 1)]
    assert merged(few) == tuple(few)


def test_a_subject_that_stands_out_keeps_its_finding_and_comes_first() -> None:
    apart, whole = merged([*(collecting(n, 0.25) for n in range(10)), collecting(99, 0.93)])
    assert apart.subject.taskmanager == "tm-99" and apart.subjects == ()
    assert whole.title.startswith("10 of 500 TaskManagers have the same problem. Next worst: ")
    outcome = f.RuleOutcome(
        code="SK104", name="garbage-collection", title="", core=False, findings=(whole, apart)
    )
    assert min(pairs_of([outcome]), key=report_order)[1] is apart


def test_half_of_the_subjects_cannot_stand_out() -> None:
    (whole,) = merged([collecting(n, 0.25 if n < 6 else 0.9) for n in range(10)])
    assert len(whole.subjects) == 10


def test_a_value_below_its_threshold_is_worse_the_smaller_it_is() -> None:
    def starving(number: int, value: float) -> f.Finding:
        few = f.Measurement(name="free", value=value, unit="share", threshold=0.5)
        return collecting(number, 0.3, measurements=(few,))

    (whole,) = merged([starving(n, n / 20) for n in range(1, 9)])
    assert whole.subject.taskmanager == "tm-1"


def test_other_causes_and_kinds_of_subjects_stay_apart() -> None:
    jobs = [collecting(n, 0.3, subject=f.Subject(kind="job")) for n in range(FLEET)]
    assert len(merged(jobs)) == FLEET
    mixed = [collecting(n, 0.3, cause=f"cause-{n % 2}") for n in range(2 * FLEET)]
    assert [len(each.subjects) for each in merged(mixed)] == [FLEET, FLEET]


def test_the_total_is_omitted_if_unknown() -> None:
    (whole,) = merged([collecting(n, 0.3) for n in range(8)], total=None)
    assert whole.title.startswith("8 TaskManagers have the same problem")
    assert whole.why is not None and whole.why.endswith("to 7 more TaskManagers")


@pytest.mark.parametrize(("place", "stories"), [("tm-3", 1), ("tm-77", 2)])
def test_a_fleet_explains_findings_on_each_of_its_subjects(place: str, stories: int) -> None:
    """`relations.slow-process`: garbage collection explains a lost connection on the same TaskManager."""
    subject = f.Subject(kind="taskmanager", job_id=JOB.job_id, taskmanager=place)
    slow = collecting(3, 0.9, cause=None, subject=subject, rank=f.Rank.CONSEQUENCE)
    fleet = merged([collecting(n, 0.3 + n / 100) for n in range(8)])
    outcomes = [
        f.RuleOutcome(code=code, name=code, title="", core=False, findings=findings)
        for code, findings in (("SK104", fleet), ("SK105", (slow,)))
    ]
    assert len(link_findings(pairs_of(outcomes), report_order)) == stories
