"""A gentle HTTP client: bounded concurrency, time-outs, retries with backoff, nothing secret in its words.

Proxies and certificates are taken from the usual variables (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`).
Redirects are followed, as a JobManager that is no leader answers with one; credentials go to the host that
the user named, and to no other.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
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
"""One answer; the readers take no larger one."""

TOKEN_VARIABLE: Final = "FLOWDIAG_COLLECT_TOKEN"
USER_VARIABLE: Final = "FLOWDIAG_COLLECT_USER"
PASSWORD_VARIABLE: Final = "FLOWDIAG_COLLECT_PASSWORD"

_PASSING: Final = frozenset((408, 425, 429, 502, 503, 504))


class RequestFailed(Exception):
    """One request got no usable answer; what others got stays good.

    Args:
        path: of the request, without its query.
        why: one clause for the user.
        status: of the answer, None where there was none.
        fatal: asking for anything else there is in vain as well.
    """

    def __init__(
        self, path: str, why: str, *, status: int | None = None, fatal: bool = False
    ) -> None:
        """Keep the parts apart, since the manifest has them apart."""
        super().__init__(f"{path}: {why}")
        self.path, self.why, self.status, self.fatal = path, why, status, fatal


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
        self._guarded = bool(access.token or access.user or user)
        self._gate = asyncio.Semaphore(concurrency)
        self._client = _client(access, user, password)
        self.requests = 0
        """Requests sent so far, repetitions among them."""
        self.bytes = 0
        """Bytes of answers received so far."""

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
        async with self._gate:
            trouble: RequestFailed | None = None
            for attempt in range(ATTEMPTS):
                if trouble is not None:
                    await asyncio.sleep(self._pause(attempt))
                try:
                    return await self._ask(path, query)
                except _Again as again:
                    trouble = again.trouble
                    if again.wait_s:
                        await asyncio.sleep(min(again.wait_s, MOST_WAIT_S))
            raise trouble or RequestFailed(path, "no answer")

    def _pause(self, attempt: int) -> float:
        return min(MOST_WAIT_S, self._backoff_s * float(1 << (attempt - 1))) * random.uniform(
            0.8, 1.2
        )

    async def _ask(self, path: str, query: str) -> Answer:
        import httpx

        self.requests += 1
        url = self.base + path + (f"?{query}" if query else "")
        try:
            async with self._client.stream("GET", url) as response:
                content = bytearray()
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        raise RequestFailed(path, "the answer is larger than 64 MiB")
        except httpx.TooManyRedirects:
            raise RequestFailed(path, "redirected in a circle", fatal=True) from None
        except (httpx.RequestError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as error:
            failed = RequestFailed(path, self._clause(error), fatal=_is_certificate(error))
            if failed.fatal or isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
                raise failed from None
            raise _Again(failed) from None
        self.bytes += len(content)
        return self._judge(path, query, response, bytes(content))

    def _judge(self, path: str, query: str, response: httpx.Response, content: bytes) -> Answer:
        status = response.status_code
        page = b"<" == content.lstrip()[:1] or "html" in response.headers.get("content-type", "")
        here = response.url.host
        elsewhere = (
            f" of {here}" if response.history and here != urlsplit(self.base).hostname else ""
        )
        if status in (401, 403, 407):
            word = {401: "wants credentials", 403: "denies access", 407: "wants credentials"}[
                status
            ]
            who = "the proxy" if status == 407 else f"the server{elsewhere}"
            raise RequestFailed(path, f"{who} {word} ({status})", status=status, fatal=True)
        if status in _PASSING:
            failed = RequestFailed(path, f"answers {status}", status=status)
            raise _Again(failed, _seconds(response.headers.get("retry-after")))
        if page:
            # A dashboard serves its page for what it does not know; a guard before it its login page.
            raise RequestFailed(
                path,
                f"answers with an HTML page{elsewhere} instead of JSON ({status}): a login page, or not"
                " the REST interface",
                status=status,
                fatal=status < 400,
            )
        if status >= 300:
            raise RequestFailed(path, f"answers {status}{_reason(content)}", status=status)
        self._move_to_leader(response)
        try:
            body = decode_json(content)
        except ValueError:
            raise _Again(RequestFailed(path, "the answer is no JSON, or cut off")) from None
        shown = f"{path}?{query}" if query else path
        return Answer(path=shown, body=body, time_ms=_now_ms(), bytes=len(content))

    def _move_to_leader(self, response: httpx.Response) -> None:
        """Ask where the redirect led, unless credentials are only meant for the host that was named."""
        if not response.history or self._guarded:
            return
        asked, got = response.history[0].url, response.url
        tail = asked.raw_path.decode("ascii", "replace")
        if got.raw_path.decode("ascii", "replace") == tail and got.host != asked.host:
            self.base = f"{got.scheme}://{got.netloc.decode('ascii', 'replace')}" + (
                urlsplit(self.base).path
            )

    def _clause(self, error: BaseException) -> str:
        import httpx

        if isinstance(error, httpx.TimeoutException):
            return f"no answer within {self._timeout_s:g} s"
        if isinstance(error, httpx.ProxyError):
            return "the proxy refuses"
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return "its certificate is not trusted"
        if isinstance(error, httpx.ConnectError):
            lowered = text.lower()
            if "name or service" in lowered or "getaddrinfo" in lowered or "nodename" in lowered:
                return "the host is not known"
            return (
                "nobody listens there"
                if "refused" in lowered or "attempts failed" in lowered
                else ("no connection")
            )
        return "the connection broke"


class _Again(Exception):
    """Worth another attempt."""

    def __init__(self, trouble: RequestFailed, wait_s: float | None = None) -> None:
        super().__init__(trouble.why)
        self.trouble, self.wait_s = trouble, wait_s


def _client(access: Access, user: str | None, password: str | None) -> httpx.AsyncClient:
    import httpx

    headers = {"User-Agent": "flowdiag", "Accept": "application/json"}
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
            follow_redirects=True,
            max_redirects=5,
            limits=httpx.Limits(max_connections=CONCURRENCY, keepalive_expiry=30),
        )
    except (ValueError, httpx.InvalidURL) as error:
        raise FlowdiagError(
            f"the proxy settings of the environment cannot be used: {error}",
            hint="look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        ) from None


def _trust(access: Access) -> ssl.SSLContext | bool:
    if not (access.insecure or access.ca_file or access.client_cert):
        return True
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


def _is_certificate(error: BaseException) -> bool:
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.strip().isdecimal() and len(text) < 6 else None


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
