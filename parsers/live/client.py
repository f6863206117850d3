"""A gentle HTTP client: bounded concurrency, timeouts, retries with backoff, nothing secret in its words.

Proxies and certificates are taken from the usual variables (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`).

What a bad server can cost is bounded: an answer has a size and a time, unpacked and all in all; a server that asks
to be left alone is left alone. Redirects within the host are followed. One to another host is followed only
where nothing opens doors: so answer a standby ResourceManager, and a Spark driver on YARN. With credentials it is
refused, since they go to the host that the user named, and to no other.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit, urlunsplit

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import decode_json

if TYPE_CHECKING:
    import httpx

CONCURRENCY: Final = 4
TIMEOUT_S: Final = 10.0
ATTEMPTS: Final = 3
BACKOFF_S: Final = 0.5
MOST_WAIT_S: Final = 10.0
"""No longer, whatever `Retry-After` asks for: the next tick comes anyway."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""One answer, unpacked; the readers take no larger one."""
MAX_WEIGHT: Final = 256 * 1024 * 1024
"""Memory of one decoded answer, about: three bytes of `[],` become sixty."""
PATIENCE: Final = 3
"""Times the timeout: so long an answer may take that comes drop by drop."""
MAX_REDIRECTS: Final = 5

TOKEN_VARIABLE: Final = "FLOWDIAG_COLLECT_TOKEN"
USER_VARIABLE: Final = "FLOWDIAG_COLLECT_USER"
PASSWORD_VARIABLE: Final = "FLOWDIAG_COLLECT_PASSWORD"

_PASSING: Final = frozenset((408, 425, 429, 502, 503, 504))
# What is asked for is gzip; zstd and brotli, which httpx would unpack as well, make gigabytes of a packet.
_PACKED: Final = {"": None, "identity": None, "gzip": 31, "x-gzip": 31, "deflate": 15}


Got = TypeVar("Got")


class RequestFailed(Exception):
    """One request got no usable answer; what others got stays good.

    Args:
        path: of the request, without its query.
        why: one clause for the user.
        status: of the answer, None where there was none.
        fatal: asking for anything else there is in vain as well.
        hint: what helps, where that is known better than by `watching.hint_for`.
        passing: the same request may be answered later.
    """

    def __init__(
        self,
        path: str,
        why: str,
        *,
        status: int | None = None,
        fatal: bool = False,
        hint: str | None = None,
        passing: bool = False,
    ) -> None:
        """Keep the parts apart, since the manifest has them apart."""
        super().__init__(f"{path}: {why}")
        self.path, self.why, self.status, self.fatal = path, why, status, fatal
        self.hint, self.passing = hint, passing


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What opens the door; never printed, never stored.

    Attributes:
        token: for `Authorization: Bearer`.
        user, password: for basic authentication, where there is no token.
        ca_file: certificates to trust instead of the system's.
        client_cert, client_key: files of the client's own certificate.
        insecure: accept any certificate.
        timeout_s: for connecting and for each answer.
    """

    token: str | None = field(default=None, repr=False)
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    insecure: bool = False
    timeout_s: float = TIMEOUT_S

    @classmethod
    def of(
        cls,
        *,
        token_file: str | None = None,
        password_file: str | None = None,
        environ: Mapping[str, str] = os.environ,
        **more: Any,
    ) -> Access:
        """Credentials of the environment; those of files come first.

        Args:
            token_file: holds a bearer token.
            password_file: holds `user:password`.
            environ: the environment.
            more: the other attributes.

        Raises:
            FlowdiagError: a file cannot be read or holds nothing of the kind.
        """
        token = environ.get(TOKEN_VARIABLE) or None
        user, password = environ.get(USER_VARIABLE) or None, environ.get(PASSWORD_VARIABLE)
        if password_file is not None:
            user, colon, password = _secret_of(password_file).partition(":")
            token = None
            if not colon or not user:
                raise FlowdiagError(
                    f"'{password_file}' does not hold user:password", hint="write both on one line"
                )
        if token_file is not None:
            token = _secret_of(token_file)
        if token is not None and not token.isprintable():
            raise FlowdiagError("the token holds characters that no header may have")
        return cls(token=token, user=user, password=password or "", **more)


def _secret_of(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise FlowdiagError(f"cannot read '{path}': {why}") from None
    if not text:
        raise FlowdiagError(f"'{path}' is empty")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One decoded answer.

    Attributes:
        path: as asked for, with its query where that changes what is answered.
        body: the decoded JSON.
        time_ms: epoch milliseconds when it came.
        bytes: of the body as it came.
    """

    path: str
    body: Any
    time_ms: int
    bytes: int


def base_of(url: str) -> tuple[str, str | None, str | None]:
    """The base of all requests, and the user and the password that stood in the URL.

    >>> base_of("https://ann:secret@flink:8081/ui/#/overview")
    ('https://flink:8081/ui', 'ann', 'secret')
    >>> base_of("jobmanager:8081")[0]
    'http://jobmanager:8081'

    Raises:
        FlowdiagError: it is no URL of a web server.
    """
    text = url.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", text):
        shown = re.sub(r"//[^/@]*@", "//***@", url)
        raise FlowdiagError(f"'{shown}' is no URL", hint="write http://jobmanager:8081")
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port else ""
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, place, path, "", "")), parts.username, parts.password


class Client:
    """Asks one server; use it as an asynchronous context."""

    def __init__(
        self,
        url: str,
        access: Access | None = None,
        *,
        concurrency: int = CONCURRENCY,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            url: where paths begin; credentials in it are used and shown nowhere.
            access: credentials and certificates.
            concurrency: requests under way at once.
            backoff_s: before the first repetition; doubled each time.

        Raises:
            FlowdiagError: the URL or a certificate file is none.
        """
        self.base, user, password = base_of(url)
        access = access or Access()
        self._timeout_s, self._backoff_s = access.timeout_s, backoff_s
        self._guarded = bool(access.token or access.user or user or access.client_cert)
        self._gate = asyncio.Semaphore(concurrency)
        self._client = _client(access, user, password)
        self._rest_until = 0.0  # of the loop's clock: somebody asked to be left alone
        self.requests = 0
        """Requests sent so far, repetitions among them."""
        self.bytes = 0
        """Bytes of answers received so far."""
        self.weight = 0
        """Memory that all answers so far took, decoded."""

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def get(self, path: str, query: str = "") -> Answer:
        """Ask for JSON.

        Args:
            path: below the base, beginning with a slash.
            query: behind the question mark, encoded.

        Raises:
            RequestFailed: there is no usable answer, after all repetitions.
        """
        return await self._persistently(path, lambda: self._ask(path, query))

    async def download(self, path: str, target: Path, most: int) -> int:
        """Write an answer that is no JSON to a file, as it comes.

        Args:
            path: below the base, beginning with a slash.
            target: new, or overwritten; what is in it after a failure is no answer.
            most: bytes that are taken at most.

        Returns:
            How many there were.

        Raises:
            RequestFailed: there is no usable answer, after all repetitions.
            OSError: the file cannot be written.
        """

        async def ask() -> int:
            size = 0
            # Nobody knows how long it is: every piece has its timeout, and all have a limit.
            async with self._answer(path, "", accept="*/*") as response:
                if response.status_code >= 300:
                    content = await self._content(path, response)
                    raise self._refusal(path, response, content)
                with target.open("wb") as file:
                    async for piece in _unpacked(path, response, most):
                        size += len(piece)
                        file.write(piece)
            self.bytes += size
            return size

        return await self._persistently(path, ask)

    async def _persistently(self, path: str, ask: Callable[[], Awaitable[Got]]) -> Got:
        async with self._gate:
            trouble: RequestFailed | None = None
            for attempt in range(ATTEMPTS):
                if trouble is not None:
                    await asyncio.sleep(self._pause(attempt))
                # Whoever asks for patience is not asked by the others meanwhile either.
                await asyncio.sleep(self._rest_until - asyncio.get_running_loop().time())
                try:
                    return await ask()
                except _Again as again:
                    trouble = again.trouble
                    if again.wait_s:
                        until = asyncio.get_running_loop().time() + min(again.wait_s, MOST_WAIT_S)
                        self._rest_until = max(self._rest_until, until)
            raise trouble or RequestFailed(path, "no answer")

    def _pause(self, attempt: int) -> float:
        return min(MOST_WAIT_S, self._backoff_s * float(1 << (attempt - 1))) * random.uniform(
            0.8, 1.2
        )

    async def _ask(self, path: str, query: str) -> Answer:
        try:
            async with asyncio.timeout(PATIENCE * self._timeout_s):
                async with self._answer(path, query) as response:
                    content = await self._content(path, response)
        except TimeoutError:
            why = f"the answer was not complete after {PATIENCE * self._timeout_s:g} s"
            raise _Again(RequestFailed(path, why)) from None
        self.bytes += len(content)
        return self._judge(path, query, response, content)

    @asynccontextmanager
    async def _answer(
        self, path: str, query: str, accept: str = "application/json"
    ) -> AsyncIterator[httpx.Response]:
        """The answer to one request behind all redirects, its body yet to be read."""
        import httpx

        url = self.base + path + (f"?{query}" if query else "")
        try:
            request = self._client.build_request("GET", url, headers={"Accept": accept})
            asked = request.url
            for hop in range(MAX_REDIRECTS + 1):
                self.requests += 1
                # Behind a redirect only those headers are sent again that httpx left in the request.
                authentication = None if hop else httpx.USE_CLIENT_DEFAULT
                response = await self._client.send(request, stream=True, auth=authentication)
                try:
                    if response.next_request is None:
                        yield response
                        return
                finally:
                    await response.aclose()
                request = response.next_request
                self._check_redirect(path, asked, request.url)
            raise RequestFailed(path, "redirected in a circle", fatal=True)
        except (httpx.RequestError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as error:
            why, hint = self._clause(error)
            failed = RequestFailed(path, why, fatal=hint is not None, hint=hint)
            if failed.fatal or isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
                raise failed from None
            raise _Again(failed) from None

    def _check_redirect(self, path: str, asked: httpx.URL, to: httpx.URL) -> None:
        """Refuse a redirect that leads where nobody asked for."""
        if to.scheme not in ("http", "https"):
            raise RequestFailed(
                path, f"sends to a {to.scheme[:20]}: URL, which is not followed", fatal=True
            )
        if to.port is not None and not 0 < to.port < 65536:
            raise RequestFailed(path, "sends to a port that cannot be", fatal=True)
        if to.host == asked.host or not self._guarded:
            return
        place = f"{to.scheme}://{to.netloc.decode('ascii', 'replace')}"[:200]
        raise RequestFailed(
            path,
            f"sends to another host, {place}, which is not followed with credentials",
            fatal=True,
            hint=f"if that is where they belong, name {place} instead",
        )

    async def _content(self, path: str, response: httpx.Response) -> bytes:
        content = bytearray()
        async for piece in _unpacked(path, response, MAX_ANSWER_BYTES):
            content += piece
        return bytes(content)

    def _judge(self, path: str, query: str, response: httpx.Response, content: bytes) -> Answer:
        if response.status_code >= 300 or _is_page(response, content):
            raise self._refusal(path, response, content)
        self._move_to_leader(path, query, response)
        weight = len(content) + _VALUE_BYTES * sum(map(content.count, (b",", b"[", b"{")))
        if weight > MAX_WEIGHT:
            raise RequestFailed(path, "the answer has too many values")
        self.weight += weight
        try:
            body = decode_json(content)
        except ValueError:
            raise _Again(RequestFailed(path, "the answer is no JSON, or cut off")) from None
        shown = f"{path}?{query}" if query else path
        return Answer(path=shown, body=body, time_ms=_now_ms(), bytes=len(content))

    def _refusal(self, path: str, response: httpx.Response, content: bytes) -> Exception:
        """What to raise for an answer that is none."""
        status = response.status_code
        here = response.url.host
        elsewhere = f" of {here}" if here != urlsplit(self.base).hostname else ""
        if status in (401, 403, 407):
            word = {401: "wants credentials", 403: "denies access", 407: "wants credentials"}[
                status
            ]
            who = "the proxy" if status == 407 else f"the server{elsewhere}"
            return RequestFailed(path, f"{who} {word} ({status})", status=status, fatal=True)
        if status in _PASSING:
            failed = RequestFailed(path, f"answers {status}", status=status, passing=True)
            return _Again(failed, _seconds(response.headers.get("retry-after")))
        if status == 400 and _HTTPS_WANTED.search(content[:2000]):
            return RequestFailed(path, *_SPEAKS_HTTPS, status=status, fatal=True)
        if _is_page(response, content):
            # A dashboard serves its page for what it does not know; a guard before it its login page.
            return RequestFailed(
                path,
                f"answers with an HTML page{elsewhere} instead of JSON ({status}): a login page, or not"
                " the REST interface",
                status=status,
                fatal=status < 400,
            )
        return RequestFailed(path, f"answers {status}{_reason(content)}", status=status)

    def _move_to_leader(self, path: str, query: str, response: httpx.Response) -> None:
        """Ask where the redirect led, unless credentials are only meant for the host that was named."""
        got, named = response.url, urlsplit(self.base)
        if self._guarded or got.host == named.hostname:
            return
        tail = path + (f"?{query}" if query else "")
        came = got.raw_path.decode("ascii", "replace")
        if came.endswith(tail):
            place = f"{got.scheme}://{got.netloc.decode('ascii', 'replace')}"
            self.base = place + came[: len(came) - len(tail)].rstrip("/")

    def _clause(self, error: BaseException) -> tuple[str, str | None]:
        """What went wrong; and what helps, where asking again does not."""
        import httpx

        if isinstance(error, httpx.TimeoutException):
            return f"no answer within {self._timeout_s:g} s", None
        if isinstance(error, httpx.ProxyError):
            return "the proxy refuses", None
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                "its certificate is not trusted",
                "name the authority's certificate with --ca-file",
            )
        if re.search("WRONG_VERSION_NUMBER|HTTP_REQUEST|RECORD_LAYER_FAILURE", text, re.IGNORECASE):
            return "it speaks http there, not https", "write http:// before the address"
        if isinstance(error, httpx.ConnectError):
            lowered = text.lower()
            if "name or service" in lowered or "getaddrinfo" in lowered or "nodename" in lowered:
                return "the host is not known", None
            refused = "refused" in lowered or "attempts failed" in lowered
            return "nobody listens there" if refused else "no connection", None
        return "the connection broke", None


_VALUE_BYTES: Final = 64
_HTTPS_WANTED: Final = re.compile(rb"HTTP request (?:to|was sent to) (?:an )?HTTPS", re.IGNORECASE)
_SPEAKS_HTTPS: Final = ("it speaks https there, not http",)


def _is_page(response: httpx.Response, content: bytes) -> bool:
    return content.lstrip()[:1] == b"<" or "html" in response.headers.get("content-type", "")


async def _unpacked(path: str, response: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """The body in pieces, none of them larger than what may still come.

    Raises:
        RequestFailed: it is larger than that, or packed as nobody asked for.
    """
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in _PACKED:
        raise RequestFailed(path, f"answers in '{packed[:40]}', which was not asked for")
    bits, left = _PACKED[packed], most
    unpacker = None if bits is None else zlib.decompressobj(bits)
    async for raw in response.aiter_raw():
        piece = raw if unpacker is None else _unpack(path, unpacker, raw, left)
        left -= len(piece)
        if left < 0:
            raise RequestFailed(path, f"the answer is larger than {most >> 20} MiB")
        yield piece
    if unpacker is not None and not unpacker.eof and left < most:
        raise _Again(RequestFailed(path, "the answer is cut off"))


def _unpack(path: str, unpacker: Any, raw: bytes, left: int) -> bytes:
    try:
        found: bytes = unpacker.decompress(raw, left + 1)
    except zlib.error:
        raise _Again(RequestFailed(path, "the connection broke")) from None
    return found


class _Again(Exception):
    """Worth another attempt."""

    def __init__(self, trouble: RequestFailed, wait_s: float | None = None) -> None:
        super().__init__(trouble.why)
        self.trouble, self.wait_s = trouble, wait_s


def _client(access: Access, user: str | None, password: str | None) -> httpx.AsyncClient:
    import httpx

    headers = {
        "User-Agent": "flowdiag",
        "Accept-Encoding": "gzip",
    }
    authentication: httpx.Auth | None = None
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    elif user or access.user:
        from urllib.parse import unquote

        named = (
            (unquote(user), unquote(password or ""))
            if user
            else (access.user or "", access.password or "")
        )
        authentication = httpx.BasicAuth(*named)
    try:
        return httpx.AsyncClient(
            verify=_trust(access),
            auth=authentication,
            headers=headers,
            timeout=access.timeout_s,
            follow_redirects=False,  # see `Client._answer`
            limits=httpx.Limits(max_connections=CONCURRENCY, keepalive_expiry=30),
        )
    except (ValueError, httpx.InvalidURL) as error:
        raise FlowdiagError(
            f"the proxy settings of the environment cannot be used: {error}",
            hint="look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        ) from None


@lru_cache(maxsize=1)
def _usual_trust() -> ssl.SSLContext:
    """What httpx trusts by itself: to read all authorities takes longer than to ask a server."""
    import httpx

    return httpx.create_ssl_context()


def _trust(access: Access) -> ssl.SSLContext | bool:
    if not (access.insecure or access.ca_file or access.client_cert):
        return _usual_trust()
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.client_cert:
            context.load_cert_chain(access.client_cert, access.client_key)
    except (OSError, ssl.SSLError) as error:
        name = access.client_cert if access.client_cert and not access.ca_file else access.ca_file
        why = getattr(error, "strerror", None) or "no certificate in it"
        raise FlowdiagError(f"cannot use the certificate '{name}': {why}") from None
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _seconds(text: str | None) -> float | None:
    """What `Retry-After` says: seconds, or a date, as they are from now on; None: nothing.

    >>> _seconds("3"), _seconds("soon"), _seconds("Wed, 21 Oct 2015 07:28:00 GMT")
    (3.0, None, 0.0)
    """
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text) if len(text) < 12 else MOST_WAIT_S
    try:
        moment = parsedate_to_datetime(text)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None


def _reason(content: bytes) -> str:
    """Flink's own words, `{"errors": [...]}`, the first line of them."""
    try:
        body = decode_json(content)
    except ValueError:
        return ""
    errors = body.get("errors") if isinstance(body, Mapping) else None
    texts = [text for text in errors if isinstance(text, str)] if isinstance(errors, list) else []
    first = next((text.strip().splitlines()[0] for text in texts if text.strip()), "")
    from flowdiag.parsers.secrets import mask_secrets

    return f": {mask_secrets(first[:200])}" if first else ""


def _now_ms() -> int:
    return int(time.time() * 1000)
