"""Throttled CPU in cAdvisor's metrics."""

from __future__ import annotations

import pytest

from flowdiag.parsers.flink.container_texts import ended_containers, reports_ended_containers
from flowdiag.parsers.sniff.text import sniff
from flowdiag.parsers.sniff.verdict import Sample


def scrape(periods: float, throttled: float, pod: str = "orders-taskmanager-1-1") -> str:
    labels = f'{{container="main",namespace="prod",pod="{pod}"}}'
    return (
        "# TYPE container_cpu_cfs_periods_total counter\n"
        f"container_cpu_cfs_periods_total{labels} {periods} 1700000000000\n"
        "# TYPE container_cpu_cfs_throttled_periods_total counter\n"
        f"container_cpu_cfs_throttled_periods_total{labels} {throttled} 1700000000000\n"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (scrape(10_000, 6_100), "throttled in 61% of 10,000 CPU periods (container main)"),
        (scrape(10_000, 3_000), None),
        (scrape(1_000, 900), None),
        (scrape(20_000, 200) + scrape(24_000, 3_800), "throttled in 90% of 4,000 CPU periods (container main)"),
        (scrape(20_000, 18_000) + scrape(24_000, 18_100), None),
        (scrape(10_000, 9_000, pod="nginx-5d"), None),
        (scrape(10_000, 99_000), None),
    ],
)  # fmt: skip
def test_share_of_throttled_periods(text: str, expected: str | None) -> None:
    assert reports_ended_containers(text)
    found = [each.text for each in ended_containers(text)]
    assert found == ([expected] if expected else [])
    sample = Sample(name="cadvisor.txt", head=text.encode(), complete=True, elsewhere=b"", read=lambda n: text.encode()[:n])  # fmt: skip
    assert "CPU-throttled" in (sniff(sample).reason or "")
