"""Removes secrets and noise from Kubernetes objects before they reach the disk."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from flowdiag.parsers.json_values import object_at
from flowdiag.parsers.live.snapshots.masking import masked_text, masked_values

_NOISE: Final = ("managedFields", "selfLink")
_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SETTINGS: Final = re.compile(
    r"flink-conf\.yaml|config\.yaml|spark-defaults\.conf|spark\.properties|log4j[\w.-]*|logback[\w.-]*"
)
_UNPACKED: Final = 4 * 1024 * 1024

Json = dict[str, Any]


def without_secrets(resource: Mapping[str, Any]) -> Json:
    """Return an object without secrets, managed fields and the last applied configuration."""
    found = dict(resource)
    metadata = {k: v for k, v in object_at(found, "metadata").items() if k not in _NOISE}
    annotations = dict(object_at(metadata, "annotations"))
    annotations.pop(_APPLIED, None)
    if "annotations" in metadata:
        metadata["annotations"] = annotations
    masked: Json = masked_values(found | {"metadata": metadata})
    return masked


def settings_of(config_map: Mapping[str, Any], name: str) -> Json | None:
    """Return a ConfigMap reduced to the files that configure Flink or Spark, or None if it has no such files."""
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
            key: _unpack(value)
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


def _unpack(value: str) -> str:
    """Decode base64 and gzip, which the autoscaler uses for its larger values."""
    if not value.startswith("H4sI"):
        return value
    try:
        data = zlib.decompressobj(31).decompress(base64.b64decode(value), _UNPACKED)
        return data.decode("utf-8", "replace")
    except (ValueError, zlib.error):
        return value
