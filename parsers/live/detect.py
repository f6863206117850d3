"""Detects the type of the server at a URL from its responses, not from its port.

A URL copied from a browser has more than the address (`…:8081/jobs/running`, `…:9090/graph?g0.expr=up`). So if
there is no API at that URL, its parent paths are tried, up to the root. This takes at most `MAX_ROOTS` times three
requests, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import as_string, object_at
from flowdiag.parsers.live.client import SPARK_STARTS, Access, Client, RequestFailed, base_of
from flowdiag.parsers.live.watching import ShowProgress, hint_for, wait_while_starting

FLINK: Final = "flink"
SPARK: Final = "spark"
PROMETHEUS: Final = "prometheus"

MAX_ROOTS: Final = 4
_PROBES: Final = {
    FLINK: ("/config", ""),
    SPARK: ("/api/v1/version", ""),
    PROMETHEUS: ("/api/v1/query", "query=1"),
}


class DriverStarts(FlowdiagError):
    """Raised if a Spark driver is still starting."""


class NoServer(FlowdiagError):
    """Raised if the server is not Flink, Spark or Prometheus. The URL may belong to a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A detected server.

    Attributes:
        kind: flink, spark or prometheus.
        url: base of all paths, with the credentials from the given URL.
        shown: the same URL without credentials.
        version: version of Flink or Spark, if reported.
    """

    kind: str
    url: str
    shown: str
    version: str | None = None


async def detect_started(url: str, access: Access, progress: ShowProgress) -> Server:
    """Detect a server, and wait for a Spark driver that is starting."""
    seen = False

    def why_starting(failed: Exception) -> str | None:
        nonlocal seen
        seen = seen or isinstance(failed, DriverStarts)
        # Between that page and the REST API, a driver responds with 404.
        starts = isinstance(failed, DriverStarts) or (seen and isinstance(failed, NoServer))
        return str(failed) if starts else None

    return await wait_while_starting(lambda: detect(url, access), why_starting, progress)


async def detect(url: str, access: Access) -> Server:
    """Detect the server at a URL, or at one of its parent paths.

    Raises:
        DriverStarts: a Spark driver is starting.
        NoServer: a server responded, but not Flink, Spark or Prometheus.
        FlowdiagError: no server responded, or access was denied; with a hint.
    """
    given = base_of(url)[0]
    refused: RequestFailed | None = None
    for root in base_urls(url):
        try:
            found, trouble = await _probe(root, access)
        except RequestFailed as failed:
            kind = DriverStarts if failed.why == SPARK_STARTS else FlowdiagError
            raise kind(f"{given}: {failed.why}", hint=hint_for(failed)) from None
        if found is not None:
            return found
        refused = refused or trouble
    if refused is not None:
        raise FlowdiagError(f"{given}: {refused.why}", hint=hint_for(refused))
    raise NoServer(
        f"{given}: the server responds, but is not Flink, Spark or Prometheus",
        hint="pass the address of a JobManager's Web UI (8081), a Spark driver (4040), a Spark"
        " History Server (18080) or Prometheus (9090)",
    )


def base_urls(url: str) -> list[str]:
    """List the possible base URLs: the URL itself, then its parents.

    >>> base_urls("http://jm:8081/#/overview"), base_urls("http://me:x@jm:8081/jobs/running")
    (['http://jm:8081'], ['http://me:x@jm:8081/jobs/running', 'http://me:x@jm:8081/jobs', 'http://me:x@jm:8081'])
    """
    text = url.strip()
    parts = urlsplit(text if "://" in text else f"http://{text}")
    names = [name for name in parts.path.split("/") if name]
    paths = ["/".join(["", *names[:count]]) for count in range(len(names), -1, -1)]
    if len(paths) > MAX_ROOTS:
        paths = [*paths[: MAX_ROOTS - 1], ""]
    return [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths]


async def _probe(root: str, access: Access) -> tuple[Server | None, RequestFailed | None]:
    """Return the server at a base URL. If there is none, return the failure if it is worth reporting.

    Raises:
        RequestFailed: further requests would be pointless, even to the parent paths.
    """
    refused = None
    async with Client(root, access) as client:
        for kind, (path, query) in _PROBES.items():
            try:
                answer = await client.get(path, query)
            except RequestFailed as failed:
                if failed.status is None or failed.transient:
                    raise
                if failed.status in (401, 403, 407) or (
                    refused is None and "login page" in failed.why and failed.status < 400
                ):
                    refused = failed
                continue
            version = _version(kind, answer.body)
            if version is not None:
                url = root if client.base == base_of(root)[0] else client.base
                return Server(kind=kind, url=url, shown=client.base, version=version or None), None
    return None, refused


def _version(kind: str, body: Any) -> str | None:
    """Return the version in a response, "" if it contains none, or None if the response is not from this kind of
    server.
    """
    if not isinstance(body, Mapping):
        return None
    if kind == FLINK:
        return as_string(body.get("flink-version"))
    if kind == SPARK:
        return as_string(body.get("spark"))
    is_prometheus = body.get("status") == "success" and "resultType" in object_at(body, "data")
    return "" if is_prometheus else None
