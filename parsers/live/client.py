"""An HTTP client with bounded concurrency, timeouts and retries with back-off. Its messages contain no secrets.

Proxies and certificates come from the usual environment variables (`HTTPS_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`).

A misbehaving server can do only limited harm: each response has a time limit and size limits, before and after
unpacking. `Retry-After` is respected. Redirects within a host are followed. A redirect to another host, such as from
a standby ResourceManager or a Spark driver on YARN, is followed only if there are no credentials. Credentials are
sent only to the host that the user specified.
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
"""Maximum wait for `Retry-After`. After a longer wait, the next tick would be due anyway."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of an unpacked response; the parsers accept no larger document."""
MAX_DECODED_BYTES: Final = 256 * 1024 * 1024
"""Maximum estimated memory of a decoded response: the three bytes of `[],` become sixty."""
SLOW_RESPONSE_FACTOR: Final = 3
"""Time limit for a response that arrives slowly, as a multiple of the timeout."""
MAX_REDIRECTS: Final = 5

TOKEN_VARIABLE: Final = "FLOWDIAG_COLLECT_TOKEN"
USER_VARIABLE: Final = "FLOWDIAG_COLLECT_USER"
PASSWORD_VARIABLE: Final = "FLOWDIAG_COLLECT_PASSWORD"

SPARK_STARTS: Final = "Spark is starting up"  # the page of a driver whose context is not ready
_TRANSIENT: Final = frozenset((408, 425, 429, 502, 503, 504))
# Only gzip is requested. httpx would also unpack zstd and brotli, which can inflate a packet to gigabytes.
_ENCODINGS: Final = {"": None, "identity": None, "gzip": 31, "x-gzip": 31, "deflate": 15}


Got = TypeVar("Got")


class RequestFailed(Exception):
    """Raised if a request gets no usable response. The other responses of the tick stay valid.

    Args:
        path: path of the request, without its query.
        why: one clause for the user.
        status: HTTP status; None without a response.
        fatal: whether every other request to this server would fail as well.
        hint: a specific remedy; by default `watching.hint_for` provides one.
        transient: whether the same request may succeed later.
    """

    def __init__(
        self,
        path: str,
        why: str,
        *,
        status: int | None = None,
        fatal: bool = False,
        hint: str | None = None,
        transient: bool = False,
    ) -> None:
        """Keep the details separate, for the manifest."""
        super().__init__(f"{path}: {why}")
        self.path, self.why, self.status, self.fatal = path, why, status, fatal
        self.hint, self.transient = hint, transient


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Credentials and TLS settings. They are never printed or stored.

    Attributes:
        token: token for `Authorization: Bearer`.
        user, password: credentials for basic authentication, used if there is no token.
        ca_file: file with the certificates to trust instead of the system's.
        client_cert, client_key: files with the client certificate and its key.
        insecure: whether to accept any certificate.
        timeout_s: timeout for connecting and for each response.
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
        **settings: Any,
    ) -> Access:
        """Read credentials from files or, failing that, from the environment.

        Args:
            token_file: file with a bearer token.
            password_file: file with `user:password`.
            environ: environment variables.
            settings: values for the other attributes.

        Raises:
            FlowdiagError: a file cannot be read or does not contain credentials.
        """
        token = environ.get(TOKEN_VARIABLE) or None
        user, password = environ.get(USER_VARIABLE) or None, environ.get(PASSWORD_VARIABLE)
        if password_file is not None:
            user, colon, password = _read_secret(password_file).partition(":")
            token = None
            if not colon or not user:
                raise FlowdiagError(
                    f"'{password_file}' does not contain user:password",
                    hint="put both on one line",
                )
        if token_file is not None:
            token = _read_secret(token_file)
        if token is not None and not token.isprintable():
            raise FlowdiagError("the token contains characters that HTTP headers do not allow")
        return cls(token=token, user=user, password=password or "", **settings)


def _read_secret(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise FlowdiagError(f"cannot read '{path}': {why}") from None
    if not text:
        raise FlowdiagError(f"'{path}' is empty")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decoded response.

    Attributes:
        path: the requested path, with its query if the query changes the response.
        body: the decoded JSON.
        time_ms: when the response arrived, in epoch milliseconds.
        bytes: size of the body as received.
    """

    path: str
    body: Any
    time_ms: int
    bytes: int


def base_of(url: str) -> tuple[str, str | None, str | None]:
    """Split a URL into the base of all requests, the user and the password.

    >>> base_of("https://ann:secret@flink:8081/ui/#/overview")
    ('https://flink:8081/ui', 'ann', 'secret')
    >>> base_of("jobmanager:8081")[0]
    'http://jobmanager:8081'

    Raises:
        FlowdiagError: the text is not a URL of a web server.
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
        raise FlowdiagError(f"'{shown}' is not a URL", hint="write http://jobmanager:8081")
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port else ""
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme, place, path, "", "")), parts.username, parts.password


class Client:
    """Sends requests to a server. Use it as an asynchronous context manager."""

    def __init__(
        self,
        url: str,
        access: Access | None = None,
        *,
        concurrency: int = CONCURRENCY,
        backoff_s: float = BACKOFF_S,
    ) -> None:
        """Prepare the connection without sending anything.

        Args:
            url: base of all paths. Credentials in it are used but never shown.
            access: credentials and certificates.
            concurrency: maximum number of parallel requests.
            backoff_s: pause before the first retry, which doubles with each retry.

        Raises:
            FlowdiagError: the URL or a certificate file is invalid.
        """
        self.base, user, password = base_of(url)
        access = access or Access()
        self._timeout_s, self._backoff_s = access.timeout_s, backoff_s
        self._has_credentials = bool(access.token or access.user or user or access.client_cert)
        self._free_slots = asyncio.Semaphore(concurrency)
        self._client = _client(access, user, password)
        self._retry_not_before = (
            0.0  # when to send again after a Retry-After, on the event loop's clock
        )
        self.requests = 0
        """Number of requests sent so far, including retries."""
        self.bytes = 0
        """Number of bytes received so far."""
        self.decoded_bytes = 0
        """Estimated memory of all decoded responses so far."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def get(self, path: str, query: str = "") -> Answer:
        """Request a JSON document.

        Args:
            path: path relative to the base, starting with a slash.
            query: the encoded query string.

        Raises:
            RequestFailed: there is no usable response after all retries.
        """
        return await self._retry(path, lambda: self._request(path, query))

    async def download(self, path: str, target: Path, most: int, query: str = "") -> int:
        """Stream a response that need not be JSON to a file.

        Args:
            path: path relative to the base, starting with a slash.
            target: file to create or overwrite. It is incomplete after a failure.
            most: maximum number of bytes.
            query: the encoded query string.

        Returns:
            The number of bytes written.

        Raises:
            RequestFailed: there is no usable response after all retries.
            OSError: the file cannot be written.
        """

        async def request() -> int:
            size = 0
            # The length is unknown, so each chunk has a timeout, and all chunks together have a size limit.
            async with self._answer(path, query, accept="*/*") as response:
                if response.status_code >= 300:
                    raise self._unusable_response(path, response, await _content_of(path, response))
                with target.open("wb") as file:
                    async for piece in _unpack_body(path, response, most):
                        size += len(piece)
                        file.write(piece)
            self.bytes += size
            return size

        return await self._retry(path, request)

    async def _retry(self, path: str, request: Callable[[], Awaitable[Got]]) -> Got:
        async with self._free_slots:
            trouble: RequestFailed | None = None
            for attempt in range(ATTEMPTS):
                if trouble is not None:
                    pause_s = min(MOST_WAIT_S, self._backoff_s * float(1 << (attempt - 1)))
                    await asyncio.sleep(pause_s * random.uniform(0.8, 1.2))
                # Retry-After applies to all requests to the server, not only to this one.
                await asyncio.sleep(self._retry_not_before - asyncio.get_running_loop().time())
                try:
                    return await request()
                except _Retryable as again:
                    trouble = again.trouble
                    if again.wait_s:
                        until = asyncio.get_running_loop().time() + min(again.wait_s, MOST_WAIT_S)
                        self._retry_not_before = max(self._retry_not_before, until)
            raise trouble or RequestFailed(path, "no response")

    async def _request(self, path: str, query: str) -> Answer:
        try:
            async with asyncio.timeout(SLOW_RESPONSE_FACTOR * self._timeout_s):
                async with self._answer(path, query) as response:
                    content = await _content_of(path, response)
        except TimeoutError:
            why = f"the response was incomplete after {SLOW_RESPONSE_FACTOR * self._timeout_s:g} s"
            raise _Retryable(RequestFailed(path, why)) from None
        self.bytes += len(content)
        return self._decode(path, query, response, content)

    @asynccontextmanager
    async def _answer(
        self, path: str, query: str, accept: str = "application/json"
    ) -> AsyncIterator[httpx.Response]:
        """Send one request, follow redirects, and open the response without reading its body."""
        import httpx

        url = self.base + path + (f"?{query}" if query else "")
        try:
            request = self._client.build_request("GET", url, headers={"Accept": accept})
            original = request.url
            for hop in range(MAX_REDIRECTS + 1):
                self.requests += 1
                # After a redirect, send only the headers that httpx kept.
                authentication = None if hop else httpx.USE_CLIENT_DEFAULT
                response = await self._client.send(request, stream=True, auth=authentication)
                try:
                    if response.next_request is None:
                        yield response
                        return
                finally:
                    await response.aclose()
                request = response.next_request
                self._check_redirect(path, original, request.url)
            raise RequestFailed(path, "redirect loop", fatal=True)
        except (httpx.RequestError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as error:
            why, hint = self._describe_error(error)
            failed = RequestFailed(path, why, fatal=hint is not None, hint=hint)
            if failed.fatal or isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
                raise failed from None
            raise _Retryable(failed) from None

    def _check_redirect(self, path: str, original: httpx.URL, to: httpx.URL) -> None:
        """Reject a redirect to another scheme, to an invalid port, or (with credentials) to another host."""
        if to.scheme not in ("http", "https"):
            raise RequestFailed(
                path,
                f"redirects to a {to.scheme[:20]}: URL, which flowdiag does not follow",
                fatal=True,
            )
        if to.port is not None and not 0 < to.port < 65536:
            raise RequestFailed(path, "redirects to an invalid port", fatal=True)
        if to.host == original.host or not self._has_credentials:
            return
        place = f"{to.scheme}://{to.netloc.decode('ascii', 'replace')}"[:200]
        raise RequestFailed(
            path,
            f"redirects to another host, {place}, which flowdiag does not follow with credentials",
            fatal=True,
            hint=f"if {place} should receive the credentials, pass that address",
        )

    def _decode(self, path: str, query: str, response: httpx.Response, content: bytes) -> Answer:
        if response.status_code >= 300 or _is_page(response, content):
            raise self._unusable_response(path, response, content)
        self._move_to_leader(path, query, response)
        decoded_bytes = len(content) + _VALUE_BYTES * sum(map(content.count, (b",", b"[", b"{")))
        if decoded_bytes > MAX_DECODED_BYTES:
            raise RequestFailed(path, "the response contains too many values")
        self.decoded_bytes += decoded_bytes
        try:
            body = decode_json(content)
        except ValueError:
            raise _Retryable(
                RequestFailed(path, "the response is not JSON, or is truncated")
            ) from None
        shown = f"{path}?{query}" if query else path
        return Answer(path=shown, body=body, time_ms=int(time.time() * 1000), bytes=len(content))

    def _unusable_response(self, path: str, response: httpx.Response, content: bytes) -> Exception:
        status = response.status_code
        here = response.url.host
        elsewhere = f" of {here}" if here != urlsplit(self.base).hostname else ""
        if status in (401, 403, 407):
            reason = "denies access" if status == 403 else "requires credentials"
            if "negotiate" in response.headers.get("www-authenticate", "").lower():
                why = f"the server{elsewhere} requires Kerberos ({status})"
                return RequestFailed(path, why, status=status, fatal=True, hint=_KERBEROS)
            refuser = "the proxy" if status == 407 else f"the server{elsewhere}"
            return RequestFailed(path, f"{refuser} {reason} ({status})", status=status, fatal=True)
        if status in _TRANSIENT:
            failed = RequestFailed(path, f"responds with {status}", status=status, transient=True)
            return _Retryable(failed, _retry_after_s(response.headers.get("retry-after")))
        if status == 400 and _HTTPS_REQUIRED.search(content[:2000]):
            return RequestFailed(path, *_HTTPS_SERVER, status=status, fatal=True)
        if SPARK_STARTS.encode() in content[:2000]:
            return _Retryable(RequestFailed(path, SPARK_STARTS, status=status, transient=True))
        if _is_page(response, content):
            # A dashboard serves its own page for unknown paths, and an authenticating proxy serves a login page.
            return RequestFailed(
                path,
                f"responds with an HTML page{elsewhere} instead of JSON ({status}): a login page, or not"
                " the REST API",
                status=status,
                fatal=status < 400,
            )
        return RequestFailed(path, f"responds with {status}{_reason(content)}", status=status)

    def _move_to_leader(self, path: str, query: str, response: httpx.Response) -> None:
        """Send later requests directly to the redirect's target. With credentials, stay on the original host."""
        got, named = response.url, urlsplit(self.base)
        if self._has_credentials or got.host == named.hostname:
            return
        tail = path + (f"?{query}" if query else "")
        path = got.raw_path.decode("ascii", "replace")
        if path.endswith(tail):
            place = f"{got.scheme}://{got.netloc.decode('ascii', 'replace')}"
            self.base = place + path[: len(path) - len(tail)].rstrip("/")

    def _describe_error(self, error: BaseException) -> tuple[str, str | None]:
        """Describe a transport error, with a hint if retrying cannot help."""
        import httpx

        if isinstance(error, httpx.TimeoutException):
            return f"no response within {self._timeout_s:g} s", None
        if isinstance(error, httpx.ProxyError):
            return "the proxy refuses the connection", None
        text = str(error)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return (
                "its certificate is not trusted",
                "pass the CA certificate with --ca-file",
            )
        if re.search("WRONG_VERSION_NUMBER|HTTP_REQUEST|RECORD_LAYER_FAILURE", text, re.IGNORECASE):
            return "the server uses HTTP, not HTTPS", "start the address with http://"
        if isinstance(error, httpx.ConnectError):
            lowered = text.lower()
            if "name or service" in lowered or "getaddrinfo" in lowered or "nodename" in lowered:
                return "unknown host", None
            refused = "refused" in lowered or "attempts failed" in lowered
            return "connection refused" if refused else "no connection", None
        return "connection lost", None


_VALUE_BYTES: Final = 64
_KERBEROS: Final = (
    "flowdiag does not use Kerberos tickets: pass the address of a gateway (Knox) with --password-file, or save"
    " the responses with `curl --negotiate -u : URL`"
)
_HTTPS_REQUIRED: Final = re.compile(
    rb"HTTP request (?:to|was sent to) (?:an )?HTTPS", re.IGNORECASE
)
_HTTPS_SERVER: Final = ("the server uses HTTPS, not HTTP",)


def _is_page(response: httpx.Response, content: bytes) -> bool:
    return content.lstrip()[:1] == b"<" or "html" in response.headers.get("content-type", "")


async def _content_of(path: str, response: httpx.Response) -> bytes:
    return b"".join([piece async for piece in _unpack_body(path, response, MAX_ANSWER_BYTES)])


async def _unpack_body(path: str, response: httpx.Response, most: int) -> AsyncIterator[bytes]:
    """Yield the unpacked body in chunks, up to `most` bytes in total.

    Raises:
        RequestFailed: the body is larger, is truncated, or has an encoding that flowdiag did not request.
    """
    packed = response.headers.get("content-encoding", "").strip().lower()
    if packed not in _ENCODINGS:
        raise RequestFailed(
            path, f"the response is encoded as '{packed[:40]}', which flowdiag did not request"
        )
    bits, left = _ENCODINGS[packed], most
    unpacker = None if bits is None else zlib.decompressobj(bits)
    async for raw in response.aiter_raw():
        try:
            piece = raw if unpacker is None else unpacker.decompress(raw, left + 1)
        except zlib.error:
            raise _Retryable(RequestFailed(path, "connection lost")) from None
        left -= len(piece)
        if left < 0:
            raise RequestFailed(path, f"the response is larger than {most >> 20} MiB")
        yield piece
    if unpacker is not None and not unpacker.eof and left < most:
        raise _Retryable(RequestFailed(path, "the response is truncated"))


class _Retryable(Exception):
    """Raised if a request failed and should be retried."""

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

        credentials = (
            (unquote(user), unquote(password or ""))
            if user
            else (access.user or "", access.password or "")
        )
        authentication = httpx.BasicAuth(*credentials)
    try:
        return httpx.AsyncClient(
            verify=_tls_context(access),
            auth=authentication,
            headers=headers,
            timeout=access.timeout_s,
            follow_redirects=False,  # see `Client._answer`
            limits=httpx.Limits(max_connections=CONCURRENCY, keepalive_expiry=30),
        )
    except (ValueError, httpx.InvalidURL) as error:
        raise FlowdiagError(
            f"invalid proxy settings in the environment: {error}",
            hint="check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        ) from None


@lru_cache(maxsize=1)
def _default_tls_context() -> ssl.SSLContext:
    """Cache httpx's default TLS context: loading all CAs takes longer than a request."""
    import httpx

    return httpx.create_ssl_context()


def _tls_context(access: Access) -> ssl.SSLContext | bool:
    if not (access.insecure or access.ca_file or access.client_cert):
        return _default_tls_context()
    try:
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.client_cert:
            context.load_cert_chain(access.client_cert, access.client_key)
    except (OSError, ssl.SSLError) as error:
        name = access.client_cert if access.client_cert and not access.ca_file else access.ca_file
        why = getattr(error, "strerror", None) or "it contains no certificate"
        raise FlowdiagError(f"cannot use the certificate '{name}': {why}") from None
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _retry_after_s(text: str | None) -> float | None:
    """Convert `Retry-After` (seconds or a date) to seconds from now.

    >>> _retry_after_s("3"), _retry_after_s("soon"), _retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT")
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
    """Return the first line of the message in Flink's `{"errors": [...]}`, after a colon, or an empty string."""
    try:
        body = decode_json(content)
    except ValueError:
        return ""
    errors = body.get("errors") if isinstance(body, Mapping) else None
    texts = [text for text in errors if isinstance(text, str)] if isinstance(errors, list) else []
    first = next((text.strip().splitlines()[0] for text in texts if text.strip()), "")
    from flowdiag.parsers.secrets import mask_secrets

    return f": {mask_secrets(first[:200])}" if first else ""
