"""Sends read-only requests to a Kubernetes API server, with the user's kubeconfig.

The official client library handles contexts, exec plugins, certificates, proxies and the service account in a
cluster. Requests use its connection pool, but not its generated models, so that responses stay JSON as `kubectl -o
json` prints it. Redirects are not followed, because they lead to login pages.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.extras import pip_install
from flowdiag.parsers.json_values import as_string, decode_json, object_at, objects_at
from flowdiag.parsers.live.client import Access, RequestFailed
from flowdiag.parsers.live.k8s.permissions import Permission
from flowdiag.parsers.secrets import mask_secrets

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
PAGE: Final = 500
"""Objects per page of a list, as in kubectl."""
MAX_PAGES: Final = 40
CONCURRENCY: Final = 4
"""Maximum number of concurrent requests."""
_CHUNK: Final = 64 * 1024
_Item = TypeVar("_Item")
_NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_NO_CONFIG: Final = (
    "pass --kubeconfig, or set KUBECONFIG; `kubectl config view` shows what kubectl uses"
)


class KubernetesApi:
    """A connection to one API server."""

    def __init__(
        self,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """Load the configuration. Nothing is sent yet, but an exec plugin may run.

        Args:
            kubeconfig: path of the file; by default `KUBECONFIG`, `~/.kube/config`, or the pod's service account.
            context: a context of the kubeconfig; by default the current one.
            timeout_s: timeout for connecting and for each read.

        Raises:
            FlowdiagError: the extra is missing, or the configuration is missing or invalid.
        """
        try:
            from kubernetes import client
        except ImportError:
            raise FlowdiagError(
                "reading from Kubernetes requires the Kubernetes client", hint=pip_install("k8s")
            ) from None
        self._configuration = client.Configuration()
        self.context_namespace = _load(self._configuration, kubeconfig, context)
        self._client = client.ApiClient(self._configuration)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self.host: str = self._configuration.host
        self.requests = self.bytes = 0

    def close(self) -> None:
        """Close all connections."""
        with suppress(Exception):
            self._client.rest_client.pool_manager.clear()

    def access(self) -> Access:
        """Return the same credentials for the asynchronous client, which reads through the API server's proxy."""
        given = self._configuration
        kind, _, token = (self._authorization() or "").partition(" ")
        return Access(
            token=token if kind.lower() == "bearer" else None,
            ca_file=given.ssl_ca_cert,
            client_cert=given.cert_file,
            client_key=given.key_file,
            insecure=not given.verify_ssl,
            timeout_s=self._timeout_s,
        )

    def get(self, path: str, permission: Permission, **query: str | int) -> dict[str, Any]:
        """Request a JSON object.

        Raises:
            RequestFailed: there is no usable response; `fatal` if other requests would fail as well.
        """
        with self._response(path, permission, query) as response:
            data = b"".join(self._pieces(path, response, MAX_ANSWER_BYTES + 1))
        if len(data) > MAX_ANSWER_BYTES:
            raise RequestFailed(path, f"the response is larger than {MAX_ANSWER_BYTES >> 20} MiB")
        if data.lstrip()[:1] == b"<":
            raise RequestFailed(path, _LOGIN_PAGE, status=response.status, fatal=True)
        try:
            body = decode_json(data)
        except ValueError:
            raise RequestFailed(path, "the response is not JSON, or is truncated") from None
        if not isinstance(body, dict):
            raise RequestFailed(path, "the response is not an object")
        return body

    def items(
        self, path: str, permission: Permission, **query: str | int
    ) -> Iterator[dict[str, Any]]:
        """Request a list page by page, and yield its objects without their managed fields.

        Raises:
            RequestFailed: a page is missing. The objects before that are valid.
        """
        following: str | None = None
        for _ in range(MAX_PAGES):
            more = {"continue": following} if following else {}
            try:
                body = self.get(path, permission, limit=PAGE, **query, **more)
            except RequestFailed as failed:
                if following and not failed.fatal:
                    failed.why = f"the list is incomplete: {failed.why}"
                raise
            for each in objects_at(body, "items"):
                # Managed fields are often half of an object, and callers keep thousands of objects.
                metadata = dict(object_at(each, "metadata"))
                metadata.pop("managedFields", None)
                yield {**each, "metadata": metadata}
            following = as_string(object_at(body, "metadata").get("continue"))
            if following is None:
                return
        raise RequestFailed(
            path, f"the list is incomplete: it has more than {MAX_PAGES * PAGE:,} objects"
        )

    def chunks(
        self, path: str, permission: Permission, most: int, **query: str | int
    ) -> Iterator[bytes]:
        """Request a text response, and yield up to `most` bytes of it in chunks.

        Raises:
            RequestFailed: there is no usable response, or it ends early.
        """
        with self._response(path, permission, query) as response:
            yield from self._pieces(path, response, most)

    def _pieces(self, path: str, response: Any, most: int) -> Iterator[bytes]:
        import urllib3

        left = most
        try:
            for piece in _body_chunks(response):
                with self._lock:
                    self.bytes += len(piece)
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return
        except urllib3.exceptions.HTTPError:
            raise RequestFailed(path, "the connection was lost during the response") from None

    @contextmanager
    def _response(self, path: str, permission: Permission, query: dict[str, Any]) -> Iterator[Any]:
        import urllib3

        url = self.host + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json, */*", "User-Agent": "flowdiag"}
        if authorization := self._authorization():
            headers["Authorization"] = authorization
        with self._lock:
            self.requests += 1
        try:
            response = self._client.rest_client.pool_manager.request(
                "GET",
                url,
                headers=headers,
                preload_content=False,
                redirect=False,
                timeout=urllib3.Timeout(connect=self._timeout_s, read=self._timeout_s),
                retries=urllib3.Retry(
                    total=2,
                    backoff_factor=0.3,
                    status_forcelist=(429, 502, 503, 504),
                    redirect=False,
                    raise_on_status=False,
                ),
            )
        except urllib3.exceptions.HTTPError as error:
            raise RequestFailed(path, *_transport_error(error), fatal=True) from None
        except ValueError as error:
            raise RequestFailed(path, f"invalid address: {error}", fatal=True) from None
        try:
            if response.status >= 300:
                raise _refusal(path, permission, response)
            if "html" in response.headers.get("content-type", ""):
                raise RequestFailed(path, _LOGIN_PAGE, status=response.status, fatal=True)
            yield response
        finally:
            # An unread body would block the next user of the connection.
            response.close()
            response.release_conn()

    def _authorization(self) -> str | None:
        with self._lock, _errors_of_plugin():
            token: str | None = self._configuration.get_api_key_with_prefix(
                "BearerToken", alias="authorization"
            )
        return token


def _body_chunks(response: Any) -> Iterator[bytes]:
    """Yield the body as it arrives, so that nothing is lost if the response ends early."""
    if response.chunked:
        yield from response.stream(_CHUNK, decode_content=True)
    else:
        while piece := response.read1(_CHUNK, decode_content=True):
            yield piece


_LOGIN_PAGE: Final = "the response is an HTML page instead of JSON: the login page of a proxy?"


def in_parallel(
    work: Callable[[_Item], object],
    items: Iterable[_Item],
    *,
    after: Callable[[int], None] | None = None,
) -> None:
    """Do the work for each item, with a limited number of concurrent requests.

    Args:
        work: called in a thread. If it fails, nothing more is started, and its exception is raised.
        items: one for each call.
        after: called in this thread with the number of finished items.
    """
    with ThreadPoolExecutor(CONCURRENCY, thread_name_prefix="flowdiag-k8s") as pool:
        running = [pool.submit(work, each) for each in items]
        try:
            for number, done in enumerate(as_completed(running), 1):
                done.result()
                if after is not None:
                    after(number)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def segment(text: str) -> str:
    """Escape a name for use as a path segment."""
    return quote(text, safe="")


def _load(configuration: Any, kubeconfig: str | None, context: str | None) -> str:
    """Load a kubeconfig or service account into `configuration`, and return the namespace of the context.

    Raises:
        FlowdiagError: there is no valid configuration.
    """
    from kubernetes import config

    file = _config_files(kubeconfig, context)
    if file is None:
        return _load_service_account(configuration)
    try:
        contexts, current = config.list_kube_config_contexts(config_file=file)
        names = {each["name"]: each for each in contexts}
        if context is not None and context not in names:
            raise FlowdiagError(
                f"the kubeconfig has no context '{context}'",
                hint=f"pass one of: {', '.join(sorted(names)[:10])}",
            )
        with _errors_of_plugin():
            config.load_kube_config(
                config_file=file, context=context, client_configuration=configuration
            )
        chosen = names[context] if context is not None else current
        return str(chosen["context"].get("namespace") or "default")
    except FlowdiagError:
        raise
    except config.ConfigException as error:
        text = str(error).removeprefix("Invalid kube-config file. ").strip().rstrip(".")
        raise FlowdiagError(f"invalid kubeconfig: {text}", hint=_NO_CONFIG) from None
    except Exception as error:  # noqa: BLE001 - YAML, base64, and files that the kubeconfig names
        text = " ".join(mask_secrets(str(error)).split())[:200]
        raise FlowdiagError(f"cannot read the kubeconfig: {text}", hint=_NO_CONFIG) from None


def _config_files(kubeconfig: str | None, context: str | None) -> str | None:
    """Return the paths of the kubeconfig, or None if flowdiag runs in a pod without a kubeconfig.

    Raises:
        FlowdiagError: no file exists.
    """
    given = kubeconfig or os.environ.get("KUBECONFIG")
    parts = (given or "~/.kube/config").split(os.pathsep)
    paths = [Path(part).expanduser() for part in parts if part]
    if any(path.is_file() for path in paths):
        return os.pathsep.join(map(str, paths))
    if not (given or context) and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    shown = ", ".join(f"'{path}'" for path in paths)
    raise FlowdiagError(f"no kubeconfig: {shown} does not exist", hint=_NO_CONFIG)


def _load_service_account(configuration: Any) -> str:
    from kubernetes import config

    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException as error:
        raise FlowdiagError(f"no service account in this pod: {error}", hint=_NO_CONFIG) from None
    return _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.is_file() else "default"


@contextmanager
def _errors_of_plugin() -> Iterator[None]:
    """Raise failures of exec plugins, which the client library only logs before it continues without credentials.

    Raises:
        FlowdiagError: the plugin is missing, or it failed.
    """
    messages: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    root, handler = logging.getLogger(), Handler(logging.ERROR)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
    if messages:
        text = " ".join(mask_secrets(messages[-1]).split())[:300]
        raise FlowdiagError(
            f"the credential plugin of the kubeconfig failed: {text}",
            hint="run `kubectl get pods` with the same context: it runs the same plugin",
        )


def _transport_error(error: Exception) -> tuple[str]:
    """Describe in one clause why no response arrived."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return ("the certificate of the API server is not trusted",)
    if re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", text):
        return ("the API server uses HTTP, not HTTPS",)
    if re.search("timed? ?out", text, re.IGNORECASE):
        return ("the API server does not respond in time",)
    if re.search("Name or service|getaddrinfo|nodename|name resolution", text):
        return ("unknown host",)
    if "refused" in text.lower():
        return ("connection refused",)
    return ("no connection",)


def _refusal(path: str, permission: Permission, response: Any) -> RequestFailed:
    """Describe an error response: missing permissions, expired credentials, objects that no longer exist."""
    status: int = response.status
    try:
        content: bytes = response.read(_CHUNK, decode_content=True) or b""
    except Exception:  # noqa: BLE001 - the status is enough
        content = b""
    message = _status_message(content)
    if status in (301, 302, 303, 307, 308):
        place = re.sub(r"[?#].*", "", str(response.headers.get("location", "")))[:120]
        return RequestFailed(
            path, f"redirects to {place}: the login page of a proxy?", status=status, fatal=True
        )
    if status == 401:
        return RequestFailed(
            path,
            "the API server rejects the credentials (401): the token may have expired",
            status=status,
            fatal=True,
            hint="log in again, then check with `kubectl get pods`",
        )
    if status == 403 and content.lstrip()[:1] != b"<":
        return RequestFailed(path, f"permission denied: {permission}", status=status)
    if content.lstrip()[:1] == b"<":
        return RequestFailed(path, _LOGIN_PAGE, status=status, fatal=True)
    if status == 404:
        return RequestFailed(path, message or "not found", status=status)
    return RequestFailed(
        path, f"responds with {status}{f': {message}' if message else ''}", status=status
    )


def _status_message(content: bytes) -> str:
    """Return the message of a `Status` object as one line."""
    with suppress(ValueError):
        body = json.loads(content)
        if isinstance(body, dict) and isinstance(text := body.get("message"), str):
            return mask_secrets(" ".join(text.split())[:200])
    return ""
