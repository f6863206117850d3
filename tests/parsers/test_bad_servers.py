"""Collecting from slow, huge, broken or hostile servers: costs are bounded, and no response is
lost.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import ssl
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live import client as clients
from flowdiag.parsers.live import watching
from flowdiag.parsers.live.client import Access, Client, RequestFailed
from flowdiag.parsers.live.flink import FlinkOptions, collect_flink
from flowdiag.parsers.live.folder import Folder
from flowdiag.parsers.live.watching import Outcome
from tests.bad_server import CASES, drops, floods
from tests.collecting import (
    BEGIN,
    FakePrometheus,
    collect_from_spark,
    collect_history,
    recorded_driver,
    rows_of,
)
from tests.fake_server import NOT_FOUND, FakeServer, RecordedFlink, Reply, as_json, serving

Respond = Callable[[str, dict[str, list[str]]], Reply]


def collect(url: str, folder: Path, ticks: int = 1, **access: Any) -> Outcome:
    async def run() -> Outcome:
        opened = Folder(folder, "flink", url)
        try:
            async with Client(url, Access(**access), backoff_s=0.01) as client:
                options = FlinkOptions(every_s=0.02, for_s=60.0, most_ticks=ticks, settle_s=0.0)
                return await collect_flink(
                    client, opened, options, tool="0", progress=lambda _: None
                )
        finally:
            opened.close()

    return asyncio.run(run())


def ask(url: str, **access: Any) -> Any:
    """Request `/config`; return the body or the failure."""

    async def run() -> Any:
        async with Client(url, Access(**access), backoff_s=0.01) as client:
            try:
                return (await client.get("/config")).body
            except RequestFailed as failed:
                return failed

    return asyncio.run(run())


def answered(folder: Path) -> list[str]:
    files = [json.loads(path.read_bytes()) for path in sorted(folder.glob("tick-*.json"))]
    return [answer["path"] for file in files for answer in file["answers"]]


@contextmanager
def answering(reply: Reply) -> Iterator[FakeServer]:
    with serving(lambda path, query: reply) as server:
        yield server


@pytest.mark.full
@pytest.mark.parametrize("case", sorted(CASES.keys() - {"slow", "silent", "values", "bomb"}))
def test_every_documented_case_ends_in_one_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "MOST_WAIT_S", 0.05)
    monkeypatch.setattr(clients, "MAX_ANSWER_BYTES", 1 << 20)
    with (
        serving(lambda path, query: CASES[case]()) as server,
        pytest.raises(FlowdiagError) as caught,
    ):
        collect(server.url, tmp_path / "c", token="secret")
    assert caught.value.message.startswith(f"{server.url}: ") and caught.value.hint
    assert "secret" not in caught.value.message + caught.value.hint


# -- slow, huge, endless -------------------------------------------------------------------------


def test_a_slow_response_times_out() -> None:
    begun = time.monotonic()
    with answering(Reply(stream=drops)) as server:
        failed = ask(server.url, timeout_s=0.1)
        # A busy host may notice late.
        assert re.fullmatch(r"the response was incomplete after \d+(\.\d+)? s", failed.why)
        assert len(server.requests) == clients.ATTEMPTS
    assert time.monotonic() - begun < 5


def test_an_endless_response_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_ANSWER_BYTES", 1 << 20)
    with answering(Reply(stream=floods)) as server:
        assert ask(server.url).why == "the response is larger than 1 MiB"
        assert len(server.requests) == 1


def test_a_decompression_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_ANSWER_BYTES", 1 << 20)
    taken: list[int] = []

    class Unpacker:
        def __init__(self, bits: int) -> None:
            self.inner = zlib.decompressobj(bits)

        @property
        def eof(self) -> bool:
            return self.inner.eof

        def decompress(self, data: bytes, most: int) -> bytes:
            piece = self.inner.decompress(data, most)
            taken.append(len(piece))
            return piece

    patched = SimpleNamespace(decompressobj=Unpacker, error=zlib.error)
    monkeypatch.setattr(clients, "zlib", patched)
    bomb = gzip.compress(bytes(64 << 20))
    with answering(Reply(bomb, headers={"Content-Encoding": "gzip"})) as server:
        assert ask(server.url).why == "the response is larger than 1 MiB"
    assert 0 < max(taken) <= (1 << 20) + 1


@pytest.mark.parametrize("packed", ["zstd", "br", "gzip, gzip", "nonsense"])
def test_only_requested_encodings_are_unpacked(packed: str) -> None:
    body = gzip.compress(gzip.compress(b"{}"))
    with answering(Reply(body, headers={"Content-Encoding": packed})) as server:
        assert (
            ask(server.url).why
            == f"the response is encoded as '{packed}', which flowdiag did not request"
        )
        assert server.headers[0]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize("pack, name", [(gzip.compress, "gzip"), (zlib.compress, "deflate")])
def test_compressed_responses_are_read(pack: Callable[[bytes], bytes], name: str) -> None:
    body = pack(b'{"flink-version": "1.20.5"}')
    with answering(Reply(body, headers={"Content-Encoding": name})) as server:
        assert ask(server.url) == {"flink-version": "1.20.5"}
    with answering(Reply(body[:-6], headers={"Content-Encoding": name})) as server:
        assert ask(server.url).why == "the response is truncated"


def test_too_many_values_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_DECODED_BYTES", 1 << 20)
    with answering(Reply(b"[" + b"[]," * 20_000 + b"1]")) as server:
        assert ask(server.url).why == "the response contains too many values"


def test_a_tick_stops_at_the_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TICK_DECODED_BYTES", 10_000)
    with serving(RecordedFlink()) as server:
        outcome = collect(server.url, tmp_path / "c")
    assert any("reached the memory limit" in warning for warning in outcome.warnings)
    assert len(server.requests) < 12 and "/jobs/overview" in answered(tmp_path / "c")


def test_implausible_parallelism_costs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowdiag.parsers.live.flink.MAX_KNOWN", 40_000)
    flink = RecordedFlink()
    for vertex in flink.job["vertices"]:
        vertex["parallelism"] = 2**31 - 1
    with serving(flink) as server:
        assert collect(server.url, tmp_path / "c").ticks == 1
    assert sum(path.stat().st_size for path in (tmp_path / "c").iterdir()) < 10_000_000


def test_a_slow_tick_is_cut_off_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "TICK_S", 0.4)
    flink = RecordedFlink()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        reply = flink(path, query)
        reply.delay_s = 3.0 if path.endswith("/exceptions") else 0.0
        return reply

    with serving(respond) as server:
        outcome = collect(server.url, tmp_path / "c")
    assert any("was cut off" in warning for warning in outcome.warnings)
    assert "/jobs/overview" in answered(tmp_path / "c")
    (file,) = (tmp_path / "c").glob("tick-*")
    assert json.loads(file.read_bytes())["complete"] is False


def test_disk_use_of_a_run_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "STORED_BYTES", 1)
    with serving(RecordedFlink()) as server:
        outcome = collect(server.url, tmp_path / "c", ticks=5)
    assert outcome.ticks == 1 and outcome.broken and "limit of" in outcome.why


# -- broken --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, why",
    [
        (b"{not json", "the response is not JSON, or is truncated"),
        (b"", "the response is not JSON, or is truncated"),
        (b"[" * 100_000, "the response contains too many values"),
        (b"[" * 5000 + b"]" * 5000, "the response is not JSON, or is truncated"),
        (b"\xff\xfe\x00", "the response is not JSON, or is truncated"),
    ],
    ids=["damaged", "empty", "brackets", "deep", "binary"],
)
def test_invalid_json(body: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MAX_DECODED_BYTES", 1 << 20)
    with answering(Reply(body)) as server:
        assert ask(server.url).why == why


def test_a_truncated_response_is_retried_then_skipped(tmp_path: Path) -> None:
    flink = RecordedFlink()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        reply = flink(path, query)
        reply.cut = path.endswith("/exceptions")
        return reply

    with serving(respond) as server:
        outcome = collect(server.url, tmp_path / "c")
        tried = [path for path in server.paths() if path.endswith("/exceptions")]
    assert len(tried) == clients.ATTEMPTS
    assert [w.partition(": ")[2] for w in outcome.warnings] == ["connection lost"]
    assert f"/jobs/{flink.job_id}/checkpoints" in answered(tmp_path / "c")
    assert not [path for path in answered(tmp_path / "c") if path.endswith("/exceptions")]


def test_a_server_that_dies_in_a_tick_gets_no_more_requests(tmp_path: Path) -> None:
    flink, alive = RecordedFlink(), [14]

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        alive[0] -= 1
        return flink(path, query) if alive[0] >= 0 else Reply(b"gone", cut=True)

    with serving(respond) as server:
        outcome = collect(server.url, tmp_path / "c")
        # Requests in flight at the same time all fail, each after all retries.
        most = (watching.MAX_CONSECUTIVE_FAILURES + clients.CONCURRENCY) * clients.ATTEMPTS
        assert len(server.requests) <= 14 + most
    assert len(answered(tmp_path / "c")) >= 5 and outcome.ticks == 1
    assert any("skipped" in warning for warning in outcome.warnings)


def mutated(value: Any, chance: random.Random) -> Any:
    """Replace some values by values of another type."""
    if chance.random() < 0.05:
        values: list[Any] = [
            None,
            -1,
            1e300,
            2**63,
            "",
            "\ud800",
            [],
            {},
            [None],
            [[]],
            {"": {}},
            True,
            "x" * 3000,
        ]
        return chance.choice(values)
    if isinstance(value, dict):
        return {key: mutated(item, chance) for key, item in value.items()}
    if isinstance(value, list):
        return [mutated(item, chance) for item in value]
    return value


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 100))]
)
def test_responses_of_any_shape_cause_no_crash(seed: int, tmp_path: Path) -> None:
    flink, chance = RecordedFlink(), random.Random(seed)

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        reply = flink(path, query)
        if path == "/config" or not reply.body:
            return reply
        return as_json(mutated(json.loads(reply.body), chance), status=reply.status)

    with serving(respond) as server:
        try:
            collect(server.url, tmp_path / "c", ticks=2)
        except FlowdiagError as error:
            assert error.message.startswith((server.url, "no job"))
    for path in (tmp_path / "c").glob("tick-*"):
        assert json.loads(path.read_bytes())["answers"]


# -- redirects -----------------------------------------------------------------------------------


def test_a_redirect_within_the_host_keeps_the_credentials() -> None:
    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/config":
            return Reply(status=302, headers={"Location": "/ui/config"})
        return as_json({"here": path})

    with serving(respond) as server:
        assert ask(server.url, token="secret") == {"here": "/ui/config"}
        assert [one.get("Authorization") for one in server.headers] == ["Bearer secret"] * 2
        server.headers.clear()
        assert ask(server.url, user="ann", password="x") == {"here": "/ui/config"}
        assert len({one.get("Authorization") for one in server.headers}) == 1


@pytest.mark.parametrize(
    "access",
    [{"token": "secret"}, {"user": "ann", "password": "secret"}],
    ids=["token", "password"],
)
def test_credentials_reach_no_other_host(access: dict[str, str]) -> None:
    with (
        serving(lambda path, query: as_json({}), "127.0.0.2") as other,
        answering(Reply(status=302, headers={"Location": f"{other.url}/config"})) as server,
    ):
        failed = ask(server.url, **access)
        assert failed.why.startswith(f"redirects to another host, {other.url}")
        assert other.requests == []
        assert ask(server.url) == {}
        assert "Authorization" not in other.headers[-1]


@pytest.mark.parametrize("scheme", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x"])
def test_a_redirect_to_another_scheme_is_not_followed(scheme: str) -> None:
    with answering(Reply(status=302, headers={"Location": scheme})) as server:
        assert (
            ask(server.url).why
            == f"redirects to a {scheme.partition(':')[0]}: URL, which flowdiag does not follow"
        )
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "location", ["http://[", "http://a b/", "//", "http://user@:99999/", "\x01"]
)
def test_an_invalid_redirect_causes_no_crash(location: str) -> None:
    with answering(Reply(status=302, headers={"Location": location})) as server:
        assert isinstance(ask(server.url, timeout_s=1), RequestFailed)


# -- access --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status, why", [(401, "requires credentials"), (403, "denies access")])
def test_denied_access(status: int, why: str, tmp_path: Path) -> None:
    with answering(Reply(b"no", status=status)) as server:
        with pytest.raises(FlowdiagError, match=why) as caught:
            collect(server.url, tmp_path / "c")
        assert caught.value.hint is not None and "--token-file" in caught.value.hint
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    "when",
    [
        "date",
        pytest.param("seconds", marks=pytest.mark.full),
        pytest.param("years", marks=pytest.mark.full),
    ],
)
def test_retry_after_is_respected(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_WAIT_S", 1.0)
    after = {
        "seconds": "1",
        "date": formatdate(time.time() + 2, usegmt=True),
        "years": "99999999999999999999",
    }
    times: list[float] = []

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        times.append(time.monotonic())
        if len(times) == 1:
            return Reply(status=429, headers={"Retry-After": after[when]})
        return as_json({})

    with serving(respond) as server:
        assert ask(server.url) == {}
    assert 0.9 < times[1] - times[0] < 3


def test_retry_after_delays_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        times.append(time.monotonic())
        if path == "/first" and len(times) == 1:
            return Reply(status=429, headers={"Retry-After": "1"})
        return as_json({})

    async def run(url: str) -> None:
        async with Client(url, backoff_s=0.01) as client:
            first = asyncio.create_task(client.get("/first"))
            await asyncio.sleep(0.3)
            await asyncio.gather(first, *(client.get(f"/{n}") for n in range(6)))

    with serving(respond) as server:
        asyncio.run(run(server.url))
    assert len(times) == 8 and min(times[1:]) - times[0] > 0.9


# -- TLS -----------------------------------------------------------------------------------------


def test_https_to_an_http_server(tmp_path: Path) -> None:
    with answering(as_json({})) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(FlowdiagError, match="the server uses HTTP, not HTTPS") as caught:
            collect(url, tmp_path / "c")
    assert caught.value.hint == "start the address with http://"


def test_http_to_an_https_server(tmp_path: Path) -> None:
    message = b"Client sent an HTTP request to an HTTPS server.\n"
    with (
        answering(Reply(message, status=400, kind="text/plain")) as server,
        pytest.raises(FlowdiagError, match="the server uses HTTPS, not HTTP") as caught,
    ):
        collect(server.url, tmp_path / "c")
    assert caught.value.hint == "start the address with https://"


def test_an_untrusted_certificate(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).parent / "data" / "localhost.pem")
    with answering(as_json({"ok": 1})) as server:
        server.wrap(context)
        url = server.url.replace("http:", "https:")
        failed = ask(url)
        assert failed.why == "its certificate is not trusted" and "--ca-file" in failed.hint
        assert ask(url, insecure=True) == {"ok": 1}
        trusted = str(Path(__file__).parent / "data" / "localhost.pem")
        assert ask(url, ca_file=trusted) == {"ok": 1}


def test_404_is_not_a_failure() -> None:
    with serving(lambda path, query: NOT_FOUND) as server:
        assert ask(server.url).status == 404
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["spark", "prometheus"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.full) for n in range(40))])
def test_responses_of_any_shape_for_the_other_collectors(
    kind: str, seed: int, tmp_path: Path
) -> None:
    answers: Respond = FakePrometheus() if kind == "prometheus" else recorded_driver
    chance = random.Random(seed)

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        reply = answers(path, query)
        if path.endswith(("/version", "/__name__/values")):
            return reply
        return as_json(mutated(json.loads(reply.body), chance), status=reply.status)

    with serving(respond) as server:
        try:
            if kind == "spark":
                collect_from_spark(server.url, tmp_path / "c")
            else:
                collect_history(server.url, tmp_path / "c", to_s=BEGIN + 100, from_s=BEGIN)
        except FlowdiagError as error:
            assert error.message.startswith(
                (server.url, "no application", "the server lists no applications")
            )
    rows_of(tmp_path / "c")
