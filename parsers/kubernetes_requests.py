"""Failed requests of the Kubernetes client, in a few words.

The client (fabric8) prints the URL of the request before the server's message, and the whole status object after it.
"""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = 4096
_REQUEST: Final = re.compile(
    r"Failure executing: (?P<verb>[A-Z]{3,7}) at: (?P<url>\S{1,400}?)\.? Message: (?P<message>.{1,2000}?)"
    r"(?:\.? Received status: (?P<status>.{0,2000}))?\Z",
    re.DOTALL,
)
_OPERATION: Final = re.compile(
    r"Operation: \[(?P<verb>\w{1,20})\] {1,4}for kind: \[(?P<kind>\w{1,60})\] {1,4}with name: \[(?P<name>[^\]]{0,253})\]"
    r" {1,4}in namespace: \[(?P<namespace>[^\]]{0,63})\] {1,4}failed\.?"
)
_URL: Final = re.compile(
    r"https?://[^/\s]{1,260}/(?:api|apis/[\w.-]{1,100})/v\w{1,20}/(?:namespaces/(?P<namespace>[\w.-]{1,63})/)?"
    r"(?P<resource>[\w./-]{1,300})"
)
_CODE: Final = re.compile(r"\bcode=(?P<code>[1-5]\d\d)\b")
# The Python client prints the status object as the body of the response.
_RESPONSE: Final = re.compile(
    r"ApiException: \((?P<code>\d{3})\)\s{1,4}Reason: (?P<reason>.{1,80}?)\s{1,4}HTTP response headers: .{0,2000}?"
    r"HTTP response body: .{0,400}?\"message\": ?\"(?P<message>(?:[^\"\\]|\\.){1,2000})\".*",
    re.DOTALL,
)
_SIGN: Final = re.compile(r"Failure executing: [A-Z]|Operation: \[|HTTP response body: ")


def short_request(text: str) -> str:
    """Return an exception with the request in short form: verb, resource, namespace, status, message.

    >>> short_request('a.KubernetesClientException: Failure executing: GET at: https://10.0.0.1/api/v1/namespaces/shop/pods/tm-1.'
    ...               ' Message: pods "tm-1" not found. Received status: Status(apiVersion=v1, code=404, details=null).')
    'a.KubernetesClientException: GET pods/tm-1 in namespace shop: HTTP 404: pods "tm-1" not found'
    >>> short_request("a.KubernetesClientException: Operation: [list]  for kind: [Pod]  with name: [null]  in namespace: [shop]  failed.")
    'a.KubernetesClientException: Request to Kubernetes failed: list Pod in namespace shop'
    >>> short_request('k.ApiException: (404) Reason: Not Found HTTP response headers: {} HTTP response body: {"message":"pods \\\\"a\\\\" not found"}')
    'k.ApiException: HTTP 404 Not Found: pods "a" not found'
    """
    if _SIGN.search(text) is None:
        return text
    text = " ".join(text[:_TEXT].split())
    response = _RESPONSE.search(text)
    if response is not None:
        message = response["message"].replace('\\"', '"')
        return f"{text[: response.start()]}ApiException: HTTP {response['code']} {response['reason']}: {message}"
    operation = _OPERATION.search(text)
    if operation is not None:
        name = "" if operation["name"] in ("", "null") else f" {operation['name']}"
        place = "" if operation["namespace"] in ("", "null") else operation["namespace"]
        what = f"{operation['verb']} {operation['kind']}{name}{_namespace_clause(place)}"
        return f"{text[: operation.start()]}Request to Kubernetes failed: {what}{text[operation.end() :]}"
    request = _REQUEST.search(text)
    if request is None:
        return text
    url = _URL.match(request["url"])
    what = (
        request["url"] if url is None else f"{url['resource']}{_namespace_clause(url['namespace'])}"
    )
    code = _CODE.search(request["status"] or "")
    status = f"HTTP {code['code']}: " if code is not None else ""
    return f"{text[: request.start()]}{request['verb']} {what}: {status}{request['message'].rstrip('.')}"


def _namespace_clause(namespace: str | None) -> str:
    return f" in namespace {namespace}" if namespace else ""
