"""What answers at a URL: told by what it says, not by its port.

A URL out of a browser has more in it than an address (`…:8081/jobs/running`, `…:9090/graph?g0.expr=up`): where
nothing answers below it, the folders above are asked, up to the root. That is at most `MAX_ROOTS` times three
requests, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import as_string, object_at
from flowdiag.parsers.live.client import Access, Client, RequestFailed, base_of
from flowdiag.parsers.live.watching import hint_for

FLINK: Final = "flink"
SPARK: Final = "spark"
PROMETHEUS: Final = "prometheus"

MAX_ROOTS: Final = 4
_QUESTIONS: Final = {
    FLINK: ("/config", ""),
    SPARK: ("/api/v1/version", ""),
    PROMETHEUS: ("/api/v1/query", "query=1"),
}


class NoServer(FlowdiagError):
    """Somebody answers, but none of those that are known: what is there may be a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Who answers.

    Attributes:
        kind: flink, spark or prometheus.
        url: where the paths begin, with the credentials that were in the URL.
        shown: the same without them.
        version: of Flink or Spark, where it says so.
    """

    kind: str
    url: str
    shown: str
    version: str | None = None


async def detect(url: str, access: Access) -> Server:
    """Find out who answers at a URL, or above it.

    Raises:
        NoServer: none of those that are known does.
        FlowdiagError: nobody does, or it refuses; with a hint.
    """
    given = base_of(url)[0]
    refused: RequestFailed | None = None
    for root in roots(url):
        try:
            found, trouble = await _at(root, access)
        except RequestFailed as failed:
            raise FlowdiagError(f"{given}: {failed.why}", hint=hint_for(failed)) from None
        if found is not None:
            return found
        refused = refused or trouble
    if refused is not None:
        raise FlowdiagError(f"{given}: {refused.why}", hint=hint_for(refused))
    raise NoServer(
        f"{given}: answers, but as none of Flink, Spark and Prometheus does",
        hint="give the address of the JobManager's web UI (8081), a Spark driver's (4040), a Spark"
        " History Server's (18080), or of Prometheus (9090)",
    )


def roots(url: str) -> list[str]:
    """Where the paths of a server may begin: at the URL as it is, and above it.

    >>> roots("http://jm:8081/#/overview"), roots("http://me:x@jm:8081/jobs/running")
    (['http://jm:8081'], ['http://me:x@jm:8081/jobs/running', 'http://me:x@jm:8081/jobs', 'http://me:x@jm:8081'])
    """
    text = url.strip()
    parts = urlsplit(text if "://" in text else f"http://{text}")
    names = [name for name in parts.path.split("/") if name]
    paths = ["/".join(["", *names[:count]]) for count in range(len(names), -1, -1)]
    if len(paths) > MAX_ROOTS:
        paths = [*paths[: MAX_ROOTS - 1], ""]
    return [urlunsplit((parts.scheme, parts.netloc, path, "", "")) for path in paths]


async def _at(root: str, access: Access) -> tuple[Server | None, RequestFailed | None]:
    """Who answers at one place; or what kept it from telling, where that is worth saying.

    Raises:
        RequestFailed: it is in vain to ask on, here or above.
    """
    refused = None
    async with Client(root, access) as client:
        for kind, (path, query) in _QUESTIONS.items():
            try:
                answer = await client.get(path, query)
            except RequestFailed as failed:
                if failed.status is None or failed.passing:
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
    """The version in an answer, empty where it has none; None: it is no answer of that kind."""
    if not isinstance(body, Mapping):
        return None
    if kind == FLINK:
        return as_string(body.get("flink-version"))
    if kind == SPARK:
        return as_string(body.get("spark"))
    known = body.get("status") == "success" and "resultType" in object_at(body, "data")
    return "" if known else None
