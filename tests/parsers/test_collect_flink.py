"""Collecting from a Flink cluster: requests, stored data, failures."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live import watching
from flowdiag.parsers.live.client import Access, Client
from flowdiag.parsers.live.flink import (
    CHECKPOINTS_PER_TICK,
    MAX_MANAGERS,
    MAX_SUBTASKS,
    FlinkOptions,
    batches_of,
    collect_flink,
)
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.live.thread_dumps import Stacks
from flowdiag.parsers.split import parse_on_driver, parse_split, plan_splits
from tests.collecting import collect_from_flink as collect
from tests.fake_server import FakeServer, RecordedFlink, Reply, as_json, serving

Row = dict[str, Any]


def files(folder: Path) -> list[Row]:
    return [json.loads(path.read_bytes()) for path in sorted(folder.glob("tick-*.json"))]


def manifest(folder: Path) -> list[Row]:
    return [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]


def rows_of(folder: Path) -> list[Row]:
    table = parse_on_driver(plan_splits(discover([str(folder)]).sources))
    return cast(list[Row], table.to_pylist())


def test_every_subtask_has_time_and_place(tmp_path: Path) -> None:
    flink = RecordedFlink()
    with serving(flink) as server:
        outcome = collect(server.url, tmp_path / "c", ticks=3)
    assert (
        outcome.ticks == 3
        and outcome.why == "the requested time has elapsed"
        and not outcome.broken
    )
    rows = rows_of(tmp_path / "c")
    busy = [
        row
        for row in rows
        if row["event"] == "metric" and row["metric"]["name"] == "numRecordsIn" and row["task"]
    ]
    subtasks = {(row["task"], row["subtask_index"]) for row in busy}
    assert Counter(task for task, _ in subtasks) == {
        "Source: orders": 2,
        "enrich": 4,
        "aggregate": 6,
        "Sink: deliver": 2,
    }
    assert len({row["utc_us"] for row in busy}) == 3  # three refreshes, each with its own time
    assert all(
        row["utc_us"] % 10_000_000 == 0 for row in busy
    )  # the server's time, not the response's
    assert {row["taskmanager"] for row in busy} == {f"taskmanager-{i}" for i in (1, 2, 3)}
    assert {row["job_name"] for row in busy} == {"orders"}
    events = Counter(row["event"] for row in rows)
    assert events["edge"] == 3  # the plan is stored once
    assert events["placed"] == 14
    assert events["checkpoint_subtask"] and events["configuration"] and events["checkpoint_config"]
    unread = [
        source.name for source in discover([str(tmp_path / "c")]).sources if source.kind != "rest"
    ]
    assert [Path(name).name for name in unread] == ["manifest.jsonl"]


def requests_per_tick(vertices: int, taskmanagers: int, batches: int, jobs: int = 1) -> int:
    """Return the maximum requests of a tick without a deployment and without checkpoint details.

    The first ticks cost one more per source, to list its metrics. The adaptive scheduler costs one more per job.

    Args:
        vertices: of all watched jobs. Each inspected checkpoint (at most two per job and tick) costs one more
            request per vertex.
        taskmanagers: the TaskManagers of the cluster.
        batches: batches of metric IDs; see `batches_of`.
        jobs: watched jobs.
    """
    overview, jobmanager, job, stamp = 1, 1, 3, 1
    return overview + jobmanager + min(taskmanagers, MAX_MANAGERS) + jobs * (job + stamp) + batches


def test_a_tick_needs_the_documented_number_of_requests(tmp_path: Path) -> None:
    with serving(RecordedFlink()) as server:
        collect(server.url, tmp_path / "c", ticks=4)
    job = next(one for one in files(tmp_path / "c")[0]["context"]["jobs"].values())
    per_subtask = len({name.partition(".")[2] for name in _metric_ids(server)})
    assert per_subtask >= 12
    vertices = len(job["vertices"])
    batches = sum("/vertices/" in path and "get=" in path for path in server.requests) / 4
    stated = requests_per_tick(vertices=vertices, taskmanagers=3, batches=int(batches))
    ticks = [entry for entry in manifest(tmp_path / "c") if entry["what"] == "tick"]
    assert all(entry["requests"] <= stated + CHECKPOINTS_PER_TICK * vertices for entry in ticks[1:])
    assert max(len(path) for path in server.requests) < 2048
    assert server.most_at_once <= 4
    assert not [path for path in server.requests if "agg=" in path]
    assert sum(entry["requests"] for entry in ticks) + 1 == len(
        server.requests
    )  # and the first contact


def _metric_ids(server: FakeServer) -> set[str]:
    return {
        name
        for path in server.requests
        if "/vertices/" in path and "?get=" in path
        for name in path.partition("?get=")[2].split(",")
    }


def test_equal_refreshes_are_one_sample(tmp_path: Path) -> None:
    flink = RecordedFlink()
    flink.frozen = True
    with serving(flink) as server:
        collect(server.url, tmp_path / "c", ticks=3)
    stored = Counter(
        answer["path"].rpartition("/")[2]
        for file in files(tmp_path / "c")
        for answer in file["answers"]
    )
    assert (
        sum(
            answer["path"].endswith("/metrics") and "/vertices/" in answer["path"]
            for file in files(tmp_path / "c")
            for answer in file["answers"]
        )
        == 4
    )
    assert stored["config"] >= 1 and stored["exceptions"] == 1  # unchanged data is stored once


@pytest.mark.parametrize(
    ("acknowledged", "status", "dumps"),
    [
        ("none", "IN_PROGRESS", 3),
        ("one", "IN_PROGRESS", 0),
        ("all", "IN_PROGRESS", 3),
        ("all", "COMPLETED", 0),
    ],
)
def test_the_jobmanager_is_dumped_if_a_checkpoint_waits_for_it(
    acknowledged: str, status: str, dumps: int, tmp_path: Path
) -> None:
    flink = RecordedFlink()
    base = f"/jobs/{flink.job_id}/checkpoints"
    only = {"id": 999, "status": status, "trigger_timestamp": 1}
    flink.answers[base] = flink.answers[base] | {"history": [only]}
    for number, vertex in enumerate(flink.job["vertices"]):
        states = ["completed" if acknowledged == "all" else "pending_or_failed"] * vertex[
            "parallelism"
        ]
        if number == 0 and acknowledged == "one":
            states[0] = "completed"
        flink.answers[f"{base}/details/999/subtasks/{vertex['id']}"] = {
            "subtasks": [{"index": index, "status": one} for index, one in enumerate(states)]
        }
    flink.answers["/jobmanager/thread-dump"] = {"threadInfos": []}
    with serving(flink) as server:
        collect(server.url, tmp_path / "c", ticks=1)
        assert server.paths().count("/jobmanager/thread-dump") == dumps


@pytest.mark.parametrize(("after_10_s", "dumps"), [(20, False), (170, True)])
def test_a_task_that_blocks_suddenly_is_a_suspect_before_its_mean_over_a_minute_is_high(
    after_10_s: int, dumps: bool, tmp_path: Path
) -> None:
    flink = RecordedFlink()
    flink.answers.update(
        {f"/taskmanagers/taskmanager-{i}/thread-dump": {"threadInfos": []} for i in (1, 2, 3)}
    )
    times = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "idleTimeMsPerSecond")
    ticks = Counter[str]()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        reply = flink(path, query)
        if not path.endswith("/metrics") or "get" not in query:
            return reply
        ticks[path] += 1
        rise = after_10_s * (ticks[path] - 1)
        values = json.loads(reply.body)
        for item in values:
            if item["id"].endswith(times):
                item["value"] = str(1000 - rise if "idle" in item["id"] else rise)
        return as_json(values)

    with serving(respond) as server:
        collect(server.url, tmp_path / "c", ticks=2)
        assert any(path.endswith("thread-dump") for path in server.paths()) == dumps


def test_up_to_1_12_equal_numbers_are_one_sample(tmp_path: Path) -> None:
    with serving(RecordedFlink("1.10.3")) as server:
        collect(server.url, tmp_path / "c", ticks=3)
        assert not [path for path in server.paths() if path.endswith("backpressure")]
        assert not [path for path in server.paths() if path.endswith("thread-dump")]
        collect(server.url, tmp_path / "d", ticks=1, sample_back_pressure=True)
        assert [path for path in server.paths() if path.endswith("backpressure")]
    metrics = [
        answer
        for file in files(tmp_path / "c")
        for answer in file["answers"]
        if answer["path"].endswith("/metrics") and "/vertices/" in answer["path"]
    ]
    assert len(metrics) == 4


def test_a_suspect_gets_three_thread_dumps(tmp_path: Path) -> None:
    flink = RecordedFlink()
    flink.answers.update(
        {f"/taskmanagers/taskmanager-{i}/thread-dump": {"threadInfos": []} for i in (1, 2, 3)}
    )
    with serving(flink) as server:
        collect(server.url, tmp_path / "c", ticks=2)
        dumps = [path for path in server.paths() if path.endswith("thread-dump")]
        collect(server.url, tmp_path / "d", ticks=1, stacks=Stacks.NEVER)
        assert sum(path.endswith("thread-dump") for path in server.paths()) == len(dumps)
        collect(server.url, tmp_path / "e", ticks=1, stacks=Stacks.ALWAYS)
        every = [path for path in server.paths() if path.endswith("thread-dump")][len(dumps) :]
    assert len(dumps) == 3 and len(set(dumps)) == 1
    assert len(every) == 9 and len(set(every)) == 3
    stored = [a for file in files(tmp_path / "c") for a in file["answers"]]
    assert sum(answer["path"].endswith("thread-dump") for answer in stored) == 3
    truth = json.loads(
        (
            Path(__file__).parents[2] / "fixtures/recordings/collected/1.20.5-hot-key/truth.json"
        ).read_text()
    )
    assert truth["expected"]["culprit"]["taskmanager"] in dumps[0]


ADAPTIVE = {"jobmanager.scheduler": "Adaptive", "web.adaptive-scheduler.rescale-history.size": "8"}


@pytest.mark.parametrize("options", [ADAPTIVE, {"scheduler-mode": "reactive"}, {}])
def test_rescales_of_the_adaptive_scheduler(tmp_path: Path, options: dict[str, str]) -> None:
    flink = RecordedFlink("2.3.0")
    base, new, running = f"/jobs/{flink.job_id}", "ab" * 16, "cd" * 16
    vertex = flink.job["vertices"][0]["id"]
    slots = {"g": {"desiredSlots": 4, "preRescaleSlots": 2, "postRescaleSlots": 4}}
    rescale = {"rescaleUuid": new, "triggerCause": "X", "terminalState": "COMPLETED", "slots": {}}
    flink.answers |= {
        "/jobmanager/config": [{"key": key, "value": value} for key, value in options.items()],
        f"{base}/resource-requirements": {vertex: {"parallelism": {"upperBound": 8}}},
        f"{base}/rescales/history": [rescale, {"rescaleUuid": running, "triggerCause": "X"}],
        f"{base}/rescales/details/{new}": rescale | {"slots": slots},
    }
    with serving(flink) as server:
        collect(server.url, tmp_path / "c", ticks=3)
        details = [path for path in server.paths() if "/rescales/details/" in path]
    assert details == [f"{base}/rescales/details/{new}"] * (options is ADAPTIVE)
    found = {
        (row["template"], fields.get("desired"), fields.get("after"))
        for row in rows_of(tmp_path / "c")
        for fields in [dict(row["fields"] or ())]
        if row["template"] in ("rest-rescale", "rest-resource-requirements")
    }
    expected = {("rest-resource-requirements", "8", None)} if options else set()
    assert found == expected | ({("rest-rescale", "4", "4")} if options is ADAPTIVE else set())


def test_secrets_do_not_reach_the_disk(tmp_path: Path) -> None:
    flink = RecordedFlink()
    flink.answers["/jobmanager/config"] = [
        {"key": "s3.secret-key", "value": "hunter2secret"},
        {"key": "env.java.opts", "value": "-Dssl.password=hunter3secret -Xmx1g"},
        {"key": "state.checkpoints.dir", "value": "s3://ann:hunter4secret@bucket/dir"},
    ]
    flink.answers[f"/jobs/{flink.job_id}/exceptions"] = {
        "root-exception": "java.lang.Exception: jdbc:mysql://root:hunter5secret@db/x?password=hunter6secret"
    }
    access = Access(token="hunter7secret")
    with serving(flink) as server:
        collect(server.url.replace("//", "//ann:hunter8secret@"), tmp_path / "c", access, ticks=1)
    assert server.headers[-1]["Authorization"] == "Bearer hunter7secret"
    stored = b"".join(path.read_bytes() for path in (tmp_path / "c").iterdir())
    assert b"secret-key" in stored and b"-Xmx1g" in stored and b"@bucket/dir" in stored
    assert b"hunter" not in stored


def test_suspects_come_first_in_large_jobs(tmp_path: Path) -> None:
    flink = RecordedFlink()
    flink.answers.pop(f"/jobs/{flink.job_id}/checkpoints")
    vertex = flink.job["vertices"][1]
    for item in flink.job["vertices"]:
        item["parallelism"] = 400
    names = ["busyTimeMsPerSecond", "numRecordsIn"]
    for item in flink.job["vertices"]:
        flink.metrics[f"/jobs/{flink.job_id}/vertices/{item['id']}/metrics"] = {
            f"{index}.{name}": "1" for index in range(400) for name in names
        }

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path.endswith("/backpressure"):
            reply = json.loads(flink(path, query).body)
            hot = vertex["id"] in path
            reply["subtasks"] = [
                {"subtask": i, "ratio": 0.0, "busyRatio": 0.99 if hot and i == 377 else 0.01}
                for i in range(400)
            ]
            return as_json(reply)
        return flink(path, query)

    with serving(respond) as server:
        collect(server.url, tmp_path / "c", ticks=3)
    per_tick = []
    for file in files(tmp_path / "c"):
        seen = {
            (answer["path"].split("/")[4], item["id"].partition(".")[0])
            for answer in file["answers"]
            if answer["path"].endswith("/metrics") and "/vertices/" in answer["path"]
            for item in answer["body"]
        }
        assert len(seen) == MAX_SUBTASKS
        assert (vertex["id"], "377") in seen
        per_tick.append(seen)
    assert len(per_tick[0] | per_tick[1] | per_tick[2]) > len(per_tick[0])  # the others rotate
    # The time shares of the other subtasks come from back pressure responses, once each.
    rows = [
        row
        for row in rows_of(tmp_path / "c")
        if row["event"] == "metric" and row["metric"]["name"] == "busyTimeMsPerSecond"
    ]
    assert len(rows) == len({(row["utc_us"], row["task"], row["subtask_index"]) for row in rows})


# -- misbehaving servers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words", "hint"),
    [
        (Reply(b"<html><form>Sign in</form>", kind="text/html"), "HTML page", "--token-file"),
        (Reply(b"no", status=401), "requires credentials (401)", "--token-file"),
        (Reply(b"no", status=403), "denies access (403)", "--token-file"),
        (as_json({"errors": ["Boom password=hunter2"]}, status=500), "responds with 500: Boom password=***", "curl"),
        (as_json({"hello": 1}), "not the REST API of a Flink JobManager", "8081"),
        (as_json({"flink-version": "1.8.3"}), "too old", "1.9"),
        (as_json(["x" * 100], cut=True), "connection lost", "curl"),
        (Reply(b"{not json"), "not JSON", "curl"),
        (Reply(b"no gzip", headers={"Content-Encoding": "gzip"}), "connection lost", "curl"),
        (as_json({}, delay_s=0.6), "no response within 0.2 s", "curl"),
        (Reply(status=302, headers={"Location": "/again"}), "redirect loop", "curl"),
    ],
)  # fmt: skip
def test_one_clear_message(tmp_path: Path, reply: Reply, words: str, hint: str) -> None:
    with serving(lambda path, query: reply) as server, pytest.raises(FlowdiagError) as caught:
        collect(server.url, tmp_path / "c", Access(timeout_s=0.2))
    assert words in caught.value.message
    assert caught.value.hint is not None and hint in caught.value.hint
    assert len(server.requests) <= 6


def test_connection_refused(tmp_path: Path) -> None:
    with serving(lambda path, query: Reply()) as server:
        url = server.url
    with pytest.raises(FlowdiagError, match="connection refused"):
        collect(url, tmp_path / "c")


def test_a_failed_request_is_retried(tmp_path: Path) -> None:
    flink, failures = RecordedFlink(), Counter[str]()
    flink.answers["/taskmanagers/taskmanager-2/thread-dump"] = {"threadInfos": []}
    bad = [
        Reply(b"busy", status=503, headers={"Retry-After": "0"}),
        as_json(list(range(1000)), cut=True),
    ]

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        failures[path] += 1
        return bad[failures[path] - 1] if failures[path] <= len(bad) else flink(path, query)

    with serving(respond) as server:
        outcome = collect(server.url, tmp_path / "c", ticks=1)
    assert outcome.warnings == ()
    assert all(not entry["failed"] for entry in manifest(tmp_path / "c") if entry["what"] == "tick")


def test_a_redirect_to_the_leader_gets_no_credentials(tmp_path: Path) -> None:
    flink = RecordedFlink()
    with serving(flink, "127.0.0.2") as leader:

        def respond(path: str, query: dict[str, list[str]]) -> Reply:
            return Reply(status=307, headers={"Location": leader.url + path})

        with serving(respond) as standby:
            collect(standby.url, tmp_path / "c", ticks=1)
            assert len(standby.requests) == 1 and len(leader.requests) > 10
            leader.requests.clear()
            with pytest.raises(FlowdiagError, match=f"another host, {leader.url}") as caught:
                collect(standby.url, tmp_path / "d", Access(token="secret"), ticks=1)
            assert caught.value.hint is not None and f"if {leader.url}" in caught.value.hint
            assert standby.headers[-1]["Authorization"] == "Bearer secret"
            assert leader.requests == []


def test_a_dead_cluster_leaves_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "SILENCE_S", 0.2)
    flink = RecordedFlink()
    with serving(flink) as server:
        requests = 0

        def respond(path: str, query: dict[str, list[str]]) -> Reply:
            nonlocal requests
            requests += path == "/jobs/overview"
            if requests > 2:
                return Reply(status=503)
            return flink(path, query)

        server.respond = respond
        outcome = collect(server.url, tmp_path / "c", ticks=1000)
    assert outcome.broken and outcome.ticks == 2 and outcome.why == "responds with 503"
    assert manifest(tmp_path / "c")[-1]["what"] == "end"
    assert [row for row in rows_of(tmp_path / "c") if row["event"] == "metric"]


def test_partial_failures_are_reported(tmp_path: Path) -> None:
    flink = RecordedFlink()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/jobmanager/config":
            return Reply(b"<html>", status=403, kind="text/html")
        return flink(path, query)

    with serving(respond) as server:
        outcome = collect(server.url, tmp_path / "c", ticks=1)
    assert outcome.warnings == ("/jobmanager/config: the server denies access (403)",)
    assert [row for row in rows_of(tmp_path / "c") if row["event"] == "metric"]


def test_collecting_ends_with_the_job(tmp_path: Path) -> None:
    flink = RecordedFlink()
    overview = flink.answers["/jobs/overview"]
    seen = 0

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        nonlocal seen
        if path == "/jobs/overview":
            seen += 1
            if seen > 2:
                overview["jobs"][0]["state"] = "FAILED"
        return flink(path, query)

    with serving(respond) as server:
        outcome = collect(server.url, tmp_path / "c", ticks=50)
    assert outcome.why == "the job has ended" and outcome.ticks == 3 and not outcome.broken


def test_a_missing_job(tmp_path: Path) -> None:
    with serving(RecordedFlink()) as server:
        with pytest.raises(FlowdiagError, match="no job is named 'nothing'") as caught:
            collect(server.url, tmp_path / "c", job="nothing")
        assert caught.value.hint == "available jobs: orders"
        assert collect(server.url, tmp_path / "d", job="ord*", ticks=1).ticks == 1


# -- the folder ------------------------------------------------------------------------------


def test_a_second_run_resumes(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with serving(RecordedFlink()) as server:
        collect(server.url, folder, ticks=2)
        before = {path.name: path.read_bytes() for path in folder.glob("tick-*")}
        # As after a kill: half a line, half a file.
        with (folder / "manifest.jsonl").open("ab") as file:
            file.write(b'{"what": "tick", "fi')
        (folder / ".tick-000003-x.json").write_bytes(b"{")
        collect(server.url, folder, ticks=2)
    assert sorted(int(path.name[5:11]) for path in folder.glob("tick-*")) == [1, 2, 3, 4]
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert not list(folder.glob(".tick-*"))
    lines = (folder / "manifest.jsonl").read_text().splitlines()
    assert lines.count('{"what": "tick", "fi') == 1
    assert sum('"what": "run"' in line for line in lines) == 2


def test_folders_with_other_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with serving(RecordedFlink()) as server, serving(RecordedFlink()) as other:
        with pytest.raises(FlowdiagError, match="contains other files"):
            collect(server.url, tmp_path)
        collect(server.url, tmp_path / "c", ticks=1)
        with pytest.raises(FlowdiagError, match="contains a collection from"):
            collect(other.url, tmp_path / "c")
        with pytest.raises(FlowdiagError, match="another kind"):
            Folder(tmp_path / "c", "spark", server.url)
        held = Folder(tmp_path / "c", "flink", server.url)
        with pytest.raises(FlowdiagError, match="another `flowdiag collect` is writing"):
            Folder(tmp_path / "c", "flink", server.url)
        held.close()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_interrupted_tick_is_kept_and_marked(tmp_path: Path) -> None:
    flink, stuck = RecordedFlink(), threading.Event()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/taskmanagers":
            stuck.set()
            return as_json({}, delay_s=2.0)
        return flink(path, query)

    async def run(url: str) -> None:
        folder = Folder(tmp_path / "c", "flink", url)
        try:
            async with Client(url) as client:
                task = asyncio.create_task(
                    collect_flink(
                        client,
                        folder,
                        FlinkOptions(settle_s=0.0),
                        tool="0",
                        progress=lambda _: None,
                    )
                )
                while not stuck.is_set() and not task.done():
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        finally:
            folder.close()

    with serving(respond) as server:
        asyncio.run(run(server.url))
    (file,) = files(tmp_path / "c")
    assert file["complete"] is False and [a["path"] for a in file["answers"]][:1] == ["/config"]
    assert manifest(tmp_path / "c")[-1]["why"] == "interrupted"
    assert rows_of(tmp_path / "c")


def test_batches_contain_every_id_once() -> None:
    names = [f"{i}.Shuffle.Netty.Input.Buffers.inputQueueLength" for i in range(500)] + [
        "0.a b,c&d"
    ]
    queries = list(batches_of(names))
    assert max(map(len, queries)) <= 1800
    requests = [part for query in queries for part in query.removeprefix("get=").split(",")]
    assert len(requests) == len(names) and requests[-1] == "0.a%20b%2Cc%26d"


def test_saved_responses_take_the_time_in_their_names(tmp_path: Path) -> None:
    flink = RecordedFlink()
    (tmp_path / f"jobs_{flink.job_id}.json").write_text(json.dumps(flink.job))
    path, metrics = next(iter(flink.metrics.items()))
    name = path.strip("/").replace("/", "_") + "-1795227300.json"
    body = [{"id": key, "value": value} for key, value in metrics.items()]
    (tmp_path / name).write_text(json.dumps(body))
    rows = [row for row in rows_of(tmp_path) if row["event"] == "metric"]
    assert rows and {row["utc_us"] for row in rows} == {1_795_227_300_000_000}
    assert {row["task"] for row in rows} == {
        next(v["name"] for v in flink.job["vertices"] if v["id"] in path)
    }


def test_only_selected_metrics_become_rows(tmp_path: Path) -> None:
    with serving(RecordedFlink()) as server:
        collect(server.url, tmp_path / "c", ticks=1)
    tasks = plan_splits(discover([str(tmp_path / "c")]).sources)
    rows = [
        row
        for task in tasks
        for split in task
        for batch in parse_split(split, metrics=["numRecordsIn"])
        for row in batch.to_pylist()
    ]
    assert {row["metric"]["name"] for row in rows if row["metric"]} == {"numRecordsIn"}
    assert [row for row in rows if row["event"] == "checkpoint_subtask"]
