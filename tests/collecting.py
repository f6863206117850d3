"""Helpers that collect from recorded Flink, Spark and Prometheus servers."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from flowdiag.parsers.discover import discover
from flowdiag.parsers.live.client import Access, Client
from flowdiag.parsers.live.flink import FlinkOptions, collect_flink
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.live.prometheus import HistoryOptions, collect_prometheus
from flowdiag.parsers.live.spark import SparkOptions, collect_spark
from flowdiag.parsers.live.watching import Outcome, ShowProgress
from flowdiag.parsers.sources.file_times import moment_of_name
from flowdiag.parsers.split import parse_on_driver, plan_splits
from tests.archives import unpacked
from tests.fake_server import COLLECTED, NOT_FOUND, Reply, as_json

Row = dict[str, Any]
SPARK = Path(__file__).parents[1] / "fixtures/recordings/spark/4.3.0/overloaded"
APPLICATION = "local-1795218675832"
SCRAPES = unpacked(COLLECTED / "1.20.5-hot-key") / "prometheus"


def rows_of(folder: Path) -> list[Row]:
    table = parse_on_driver(plan_splits(discover([str(folder)]).sources))
    return cast(list[Row], table.to_pylist())


def recorded_spark() -> dict[str, Any]:
    found = {}
    for path in (unpacked(SPARK) / "rest").iterdir():
        found["/api/v1/" + path.stem.replace("_", "/")] = json.loads(path.read_bytes())
    return found


def collect_from_spark(
    url: str,
    folder: Path,
    ticks: int = 2,
    for_s: float = 60.0,
    progress: ShowProgress = lambda _: None,
    **settings: Any,
) -> Outcome:
    """Collect as fast as possible until there are enough ticks with new data."""

    async def run() -> Outcome:
        opened = Folder(folder, "spark", url)
        try:
            async with Client(url, backoff_s=0.01) as client:
                options = SparkOptions(every_s=0.02, for_s=for_s, most_ticks=ticks, **settings)
                return await collect_spark(client, opened, options, tool="0", progress=progress)
        finally:
            opened.close()

    return asyncio.run(run())


def collect_from_flink(
    url: str, folder: Path, access: Access | None = None, ticks: int = 2, **settings: Any
) -> Outcome:
    """Collect some ticks as fast as possible."""

    async def run() -> Outcome:
        opened = Folder(folder, "flink", url)
        try:
            async with Client(url, access, backoff_s=0.01) as client:
                options = FlinkOptions(
                    every_s=0.02,
                    for_s=60.0,
                    most_ticks=ticks,
                    settle_s=0.0,
                    dump_pause_s=0.0,
                    **settings,
                )
                return await collect_flink(
                    client, opened, options, tool="0", progress=lambda _: None
                )
        finally:
            opened.close()

    return asyncio.run(run())


@lru_cache(maxsize=1)
def _driver() -> dict[str, Any]:
    return recorded_spark()


def recorded_driver(path: str, query: dict[str, list[str]]) -> Reply:
    """Respond as the recorded driver."""
    found = _driver()
    return as_json(found[path]) if path in found else NOT_FOUND


Series = dict[str, list[tuple[float, str]]]  # labels as JSON -> samples


def scraped() -> dict[str, Series]:
    """Return the samples of a Prometheus server that scraped the recorded cluster, by metric name."""
    found: dict[str, Series] = defaultdict(lambda: defaultdict(list))
    for path in sorted(SCRAPES.iterdir()):
        moment = moment_of_name(path.name).utc_us
        assert moment is not None
        for line in path.read_text().splitlines():
            if match := re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
                labels |= {"instance": path.name.split("-2026")[0], "__name__": match[1]}
                key = json.dumps(labels, sort_keys=True)
                found[match[1]][key].append((moment / 1e6, match[3]))
    return found


class FakePrometheus:
    def __init__(self) -> None:
        self.series = scraped()

    def __call__(self, path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/api/v1/label/__name__/values":
            assert "flink_.+" in query["match[]"][0]
            return as_json({"status": "success", "data": sorted(self.series)})
        if path != "/api/v1/query_range":
            return NOT_FOUND
        start, end = float(query["start"][0]), float(query["end"][0])
        name, _, matchers = query["query"][0].partition("{")
        result = [
            {"metric": json.loads(labels), "values": inside}
            for labels, samples in self.series[name].items()
            if (inside := [list(pair) for pair in samples if start <= pair[0] <= end])
        ]
        if "Status" in name:
            assert "job_name" not in matchers
        if "job_name" in matchers and 'job_name=~"ord.*"' not in matchers:
            result = []
        data = {"resultType": "matrix", "result": result}
        return as_json({"status": "success", "data": data})


BEGIN = int((moment_of_name(min(path.name for path in SCRAPES.iterdir())).utc_us or 0) / 1e6)


def collect_history(url: str, folder: Path, **settings: Any) -> Outcome:
    async def run() -> Outcome:
        opened = Folder(folder, "prometheus", url)
        try:
            async with Client(url, backoff_s=0.01) as client:
                span = {"from_s": BEGIN - 100, "to_s": BEGIN + 3700} | settings
                options = HistoryOptions(step_s=1, **span)
                return await collect_prometheus(
                    client, opened, options, tool="0", progress=lambda _: None
                )
        finally:
            opened.close()

    return asyncio.run(run())
