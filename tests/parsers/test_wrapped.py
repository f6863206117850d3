"""Checks that logs wrapped at a column are read like the originals, and that other logs are not unwrapped."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.envelopes.wrapped import unwrapped_lines
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import unpacked
from tests.recordings import RECORDINGS

SICK = unpacked(RECORDINGS / "1.20.5/hot-key")
LOG = next(path for path in sorted(SICK.rglob("*")) if "standalonesession" in path.name)
LINES = [
    line
    for line in LOG.read_text().splitlines()
    if "heckpoint" in line or "switched from" in line or "Deploying" in line
][:160]


def rows(text: str, folder: Path) -> list[dict[str, object]]:
    """Return the recognized events without their offsets."""
    (folder / "x.log").write_text(text)
    found = discover([str(folder / "x.log")]).sources
    table = parse_on_driver(plan_splits([source for source in found if source.kind != "not-read"]))
    return [
        {name: value for name, value in row.items() if name not in ("offset", "source")}
        for row in table.to_pylist()
        if row["event"] not in ("split", "marks")
    ]


def by_mail(width: int) -> str:
    broken = (
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) for line in LINES
    )
    return "\n".join("\n".join(pieces) for pieces in broken) + "\n"


def by_terminal(width: int) -> str:
    broken = ([line[at : at + width] for at in range(0, len(line), width)] for line in LINES)
    return "\n".join("\n".join(pieces) for pieces in broken) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(by_mail(width), id=f"mail {width}") for width in (65, 72, 78, 100)),
        *(
            pytest.param(by_terminal(width), id=f"terminal {width}")
            for width in (80, 100, 132, 211)
        ),
        pytest.param(by_mail(72).replace("\n", "\r\n"), id="line ends of Windows"),
        pytest.param(textwrap.indent(by_mail(70), "> "), id="quoted"),
        pytest.param(textwrap.indent(by_mail(70), ">> "), id="quoted twice"),
    ],
)
def test_a_wrapped_log_gives_the_same_events(text: str, tmp_path: Path) -> None:
    plain = rows("\n".join(LINES) + "\n", tmp_path)
    assert len(plain) > 80
    found = rows(text, tmp_path)
    missing = [row for row in plain if row not in found]
    # A line that is exactly as long as the screen cannot be distinguished from a wrapped line.
    assert len(missing) <= 0.02 * len(plain), missing[0]
    assert len(found) == len(plain)


def test_other_logs_stay_unchanged() -> None:
    logs = [
        path
        for version in ("1.9.3", "1.14.6", "1.20.5", "2.3.0")
        for path in unpacked(RECORDINGS / version / "hot-key").rglob("*.log")
    ]
    assert len(logs) > 10
    assert [path for path in logs if unwrapped_lines(path.read_bytes()) is not None] == []


def test_prose_with_a_date_stays_prose() -> None:
    text = (
        "Notes of 2026-11-20\n2026-11-20 14:02:11 we saw that the job was slow, and that all of its\n"
        "checkpoints took longer than before; nobody knows why that is so, and what\ncan be done.\n"
    )
    assert unwrapped_lines(text.encode()) is None


def test_an_exception_of_a_mail_keeps_its_frames() -> None:
    text = (
        "2026-11-20 14:02:11,871 WARN  org.apache.flink.runtime.taskmanager.Task\n"
        "[] - Enrich (3/8)#2 (1f0c9a85d219d1e2c6f0b7a4b43a1b1f) switched from\n"
        "RUNNING to FAILED with failure cause:\n"
        "org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms\n"
        "expired before the position for partition orders-3 could be determined\n"
        "        at\n"
        "org.apache.flink.streaming.runtime.tasks.StreamTask.invoke(StreamTask.java:917)\n"
        "~[flink-dist-1.20.5.jar:1.20.5]\n"
        "        at java.base/java.lang.Thread.run(Thread.java:840) ~[?:?]\n"
    )
    lines = unwrapped_lines(text.encode())
    assert lines is not None
    assert lines[0].endswith("switched from RUNNING to FAILED with failure cause:")
    assert lines[1].endswith("for partition orders-3 could be determined")
    assert lines[2].strip().startswith("at org.apache.flink")
    assert lines[3].strip() == "at java.base/java.lang.Thread.run(Thread.java:840) ~[?:?]"
