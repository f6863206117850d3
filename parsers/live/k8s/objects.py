"""Removes secrets and noise from Kubernetes objects before they reach the disk."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowdiag.parsers.json_values import object_at
from flowdiag.parsers.live.watching import redact
from flowdiag.parsers.secrets import MASK, WITHHELD, is_secret_key, mask_secrets

_NOISE: Final = ("managedFields", "selfLink")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MASKED_AT_ONCE: Final = 8192
"""Characters that are searched for secrets at once: few enough for the time limit of the search."""
_SETTINGS: Final = re.compile(
    r"flink-conf\.yaml|config\.yaml|spark-defaults\.conf|spark\.properties|log4j[\w.-]*|logback[\w.-]*"
)
_UNPACKED: Final = 4 * 1024 * 1024

Json = dict[str, Any]


def cleaned(resource: Mapping[str, Any]) -> Json:
    """Return an object without secrets, managed fields and its last applied copy."""
    found = dict(resource)
    metadata = {k: v for k, v in object_at(found, "metadata").items() if k not in _NOISE}
    annotations = dict(object_at(metadata, "annotations"))
    annotations.pop(_APPLIED, None)
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    cleaned: Json = _masked(redact(found | {"metadata": metadata}))
    return cleaned


def _masked(value: Any, key: str = "", depth: int = 40) -> Any:
    """Mask environment variables by name, and all texts by pattern."""
    if depth == 0:
        return MASK
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str) and isinstance(value.get("value"), str) and is_secret_key(name):
            value = value | {"value": MASK}
        return {each: _masked(item, each, depth - 1) for each, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, key, depth - 1) for item in value]
    if isinstance(value, str) and len(value) > 8:
        return masked_text(value)
    return value


def masked_text(text: str) -> str:
    """Mask the secrets in a text of any length; a part that takes too long is searched line by line."""
    return "".join(_masked_parts(text))


def _masked_parts(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + _MASKED_AT_ONCE
        if end < len(text):
            end = max(text.rfind("\n", at, end) + 1, 0) or end
        part, at = text[at:end], end
        masked = mask_secrets(part)
        if masked == WITHHELD and "\n" in part:
            masked = "".join(mask_secrets(line) for line in part.splitlines(keepends=True))
        yield masked


def settings_of(config_map: Mapping[str, Any], name: str) -> Json | None:
    """Return a ConfigMap with only the files that configure Flink or Spark; None without any."""
    data = {
        key: value
        for key, value in object_at(config_map, "data").items()
        if isinstance(value, str) and _SETTINGS.fullmatch(key)
    }
    return _config_map(name, data) if data else None


def autoscaler_state(config_map: Mapping[str, Any], name: str) -> Json:
    """Return the ConfigMap of Flink's autoscaler with its compressed values unpacked."""
    return _config_map(
        name,
        {
            key: _unpacked(value)
            for key, value in object_at(config_map, "data").items()
            if isinstance(value, str)
        },
    )


def _config_map(name: str, data: Mapping[str, str]) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {key: masked_text(value) for key, value in data.items()},
    }


def _unpacked(value: str) -> str:
    """Decode base64 of gzip, which the autoscaler uses for its larger values."""
    if not value.startswith("H4sI"):
        return value
    try:
        data = zlib.decompressobj(31).decompress(base64.b64decode(value), _UNPACKED)
        return data.decode("utf-8", "replace")
    except (ValueError, zlib.error):
        return value
