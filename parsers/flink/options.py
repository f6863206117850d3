"""Reads Flink's configuration files as Flink does, in the old flat format and in YAML.

Up to Flink 1.18, `conf/flink-conf.yaml` is not real YAML. It has one `key: value` per line, `#` starts a comment
anywhere, a colon must be followed by a space, and quotes belong to the value. If a key is repeated, the last value
wins. Other lines are skipped with a warning (`GlobalConfiguration`). From Flink 1.19 on, `conf/config.yaml` is YAML
1.2, nested or flat. Repeated keys and tabs in the indentation are errors that prevent the cluster from starting. If a
flat file exists, 1.19 and 1.20 still prefer it.

Kubernetes resources that contain such options are read as well: ConfigMaps with a configuration file, and the
resources of the Flink Kubernetes Operator.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.parsers.kubernetes.objects import operator_error

MAX_BYTES: Final = 2 * 1024 * 1024
MAX_OPTIONS: Final = 20_000
MAX_DEPTH: Final = 40

# Prefixes of Flink's options. A file without any of them is not a Flink configuration.
_FAMILIES: Final = (
    "akka.",
    "blob.",
    "cluster.",
    "classloader.",
    "containerized.",
    "env.",
    "execution.",
    "fs.",
    "heartbeat.",
    "high-availability",
    "historyserver.",
    "io.",
    "jobmanager.",
    "kubernetes.",
    "metrics.",
    "parallelism.default",
    "pekko.",
    "pipeline.",
    "queryable-state",
    "resourcemanager.",
    "rest.",
    "restart-strategy",
    "security.",
    "slot.",
    "state.",
    "table.",
    "task.",
    "taskmanager.",
    "web.",
    "yarn.",
)
_NESTED_HEADS: Final = frozenset(family.rstrip(".").split(".")[0] for family in _FAMILIES)
_PAIR: Final = re.compile(r"^[ \t]*\"?([A-Za-z][\w.-]*)\"?[ \t]*:(?:[ \t]|\r?$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A repeated key. In a flat file the last value wins; a YAML file with a repeated key is rejected."""

    key: str
    values: tuple[str, ...]
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedLine:
    """A line of a flat file that Flink skips with a warning."""

    line: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionFile:
    """The options in a file.

    Args:
        dialect: `flat` or `yaml`.
        options: value of each key, as text.
        offsets: byte offset of each key's line.
        duplicates: repeated keys.
        skipped: lines that Flink skips, in a flat file.
        error: why Flink rejects the whole file, if it does (YAML only).
        carrier: kind of the Kubernetes resource that contains the options, such as `ConfigMap`; None for a file.
        trouble: the problem that the resource's status reports, if any.
        several: names of the resources, if the text contains several with options. None of them is read.
    """

    dialect: str
    options: Mapping[str, str] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    duplicates: tuple[Duplicate, ...] = ()
    skipped: tuple[SkippedLine, ...] = ()
    error: str | None = None
    carrier: str | None = None
    trouble: str | None = None
    several: tuple[str, ...] = ()


def looks_like_options(text: str) -> bool:
    """Return whether a text is a Flink configuration, because most of its keys are Flink options.

    >>> looks_like_options("taskmanager.memory.process.size: 1728m\\n")
    True
    >>> looks_like_options("2024-01-01 10:00:00,000 INFO  a.b.C [] - Starting x\\n")
    False
    """
    pairs = ours = others = 0
    for line in text[:65536].splitlines()[:2000]:
        stripped = line.split("#", 1)[0]
        if not stripped.strip() or stripped.strip() in ("---", "..."):
            continue
        hit = _PAIR.match(stripped)
        if hit is None or stripped.rstrip().endswith('": {'):  # part of a JSON document
            others += not stripped.lstrip().startswith("-")
            continue
        if stripped[:1] in " \t" and pairs:
            continue  # a nested key: its parent counts instead
        pairs += 1
        key = hit[1]
        ours += key.startswith(_FAMILIES) or key in _NESTED_HEADS
    if is_resource(text):
        return True
    return ours > 0 and ours * 2 >= pairs and others <= pairs


# Kind of a document or list item, in YAML or JSON.
_CARRIER: Final = re.compile(
    r"^[ \t]{0,40}(?:-[ \t]{1,4})?\"?kind\"?:[ \t]{0,8}[\"']?(ConfigMap|FlinkDeployment|FlinkSessionJob)\b",
    re.MULTILINE,
)
_KINDS: Final = ("ConfigMap", "FlinkDeployment", "FlinkSessionJob")


def is_resource(text: str) -> bool:
    """Return whether a text is a Kubernetes resource that may contain Flink options, or a list of resources.

    >>> is_resource('{\\n    "kind": "FlinkDeployment",\\n    "apiVersion": "flink.apache.org/v1beta1"\\n}')
    True
    """
    head = text[:65536]
    return _CARRIER.search(head) is not None and "flink" in head.lower()


def flink_version(text: str) -> tuple[int, int] | None:
    """Return the `flinkVersion` of a FlinkDeployment.

    >>> flink_version("spec:\\n  flinkVersion: v1_20\\n")
    (1, 20)
    """
    hit = _VERSION.search(text[:MAX_BYTES])
    return (int(hit[1]), int(hit[2])) if hit else None


_VERSION: Final = re.compile(
    r"^[ \t]{0,40}\"?flinkVersion\"?:[ \t]{0,10}[\"']?v?(\d{1,2})[._](\d{1,3})\b", re.MULTILINE
)


def read_options(
    text: str, *, name: str = "", version: tuple[int, int] | None = None
) -> OptionFile:
    """Read a configuration file in the dialect that Flink would use.

    Args:
        text: the whole file.
        name: name of the file, which determines the dialect in 1.19 and 1.20.
        version: Flink version, if known.
    """
    if _CARRIER.search(text[:65536]):
        return _options_of_resources(text)
    file = name.replace("\\", "/").rsplit("/", 1)[-1].lower()
    if version is not None and version >= (2, 0):
        return yaml_options(text)
    if version is not None and version < (1, 19):
        return flat_options(text)
    if file.startswith("flink-conf"):
        return flat_options(text)
    nested = re.search(r"^[A-Za-z][\w.-]*:[ \t]*\r?\n[ ]+[A-Za-z\"]", text, re.MULTILINE)
    if file.startswith("config.y") or nested is not None:
        return yaml_options(text)
    return flat_options(text)


def flat_options(text: str) -> OptionFile:
    """Parse `flink-conf.yaml` as `GlobalConfiguration.loadYAMLResource` does.

    >>> flat_options("a: 1  # one\\nb:2\\na: 3: 4\\n").options
    {'a': '3: 4'}
    """
    options: dict[str, str] = {}
    offsets: dict[str, int] = {}
    seen: dict[str, list[str]] = {}
    skipped: list[SkippedLine] = []
    offset = 0
    for number, line in enumerate(text[:MAX_BYTES].split("\n"), 1):
        start, offset = offset, offset + len(line.encode("utf-8", "replace")) + 1
        pair = line.split("#", 1)[0].strip()
        if not pair:
            continue
        key, colon, value = pair.partition(": ")
        key, value = key.strip(), value.strip()
        if not colon or not key or not value or len(options) >= MAX_OPTIONS:
            skipped.append(SkippedLine(line=number, offset=start, text=pair))
            continue
        options[key], offsets[key] = value, start
        seen.setdefault(key, []).append(value)
    return OptionFile(
        dialect="flat",
        options=options,
        offsets=offsets,
        duplicates=tuple(
            Duplicate(key=key, values=tuple(values), offset=offsets.get(key, 0))
            for key, values in seen.items()
            if len(values) > 1
        ),
        skipped=tuple(skipped),
    )


def yaml_options(text: str) -> OptionFile:
    """Parse `config.yaml`: YAML 1.2 with nested keys joined by dots (1.19 and later).

    >>> yaml_options("taskmanager:\\n  memory: {process.size: 2g}\\n").options
    {'taskmanager.memory.process.size': '2g'}
    """
    try:
        root = _compose(text)
    except _InvalidYaml as error:
        return OptionFile(dialect="yaml", error=str(error))
    return _options_in_node(text, root)


def _options_in_node(text: str, root: Any, carrier: str | None = None) -> OptionFile:
    if root is None:
        return OptionFile(dialect="yaml", carrier=carrier)
    if getattr(root, "id", "") != "mapping":
        return OptionFile(dialect="yaml", error="the document is not a mapping", carrier=carrier)
    options: dict[str, str] = {}
    offsets: dict[str, int] = {}
    seen: dict[str, list[str]] = {}
    lengths = (len(line.encode("utf-8", "replace")) + 1 for line in text.split("\n"))
    lines = [0, *itertools.accumulate(lengths)][:-1]
    for path, key, value, line in _pairs(root, (), ()):
        if len(options) >= MAX_OPTIONS:
            break
        seen.setdefault(path, []).append(value)
        if value:
            options[key] = value
            offsets[key] = lines[line] if line < len(lines) else 0
    duplicates = tuple(
        Duplicate(key=path.replace("\0", "."), values=tuple(values), offset=0)
        for path, values in seen.items()
        if len(values) > 1
    )
    error = None
    if duplicates:
        error = f"found duplicate key {duplicates[0].key}"
    return OptionFile(
        dialect="yaml",
        options=options,
        offsets=offsets,
        duplicates=duplicates,
        error=error,
        carrier=carrier,
    )


class _InvalidYaml(ValueError):
    """The text is not valid YAML; the message gives the reason in one line."""


def _compose(text: str) -> Any:
    # Imported here, because most commands never read YAML.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).compose(text[:MAX_BYTES])
    except RecursionError:
        raise _InvalidYaml("nested too deeply") from None
    except (YAMLError, ValueError, AttributeError, TypeError) as error:
        raise _InvalidYaml(_yaml_error(error)) from None


def _yaml_error(error: Exception) -> str:
    """Describe an error in a document, with its line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error).split("\n", 1)[0][:200] or "not YAML"
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or "not YAML"
    return f"{problem} in line {mark.line + 1}"


def _documents(text: str) -> Iterator[Any]:
    """Yield the root node of every document."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        yield from YAML(typ="safe", pure=True).compose_all(text)
    except RecursionError:
        raise _InvalidYaml("nested too deeply") from None
    except (YAMLError, ValueError, AttributeError, TypeError) as error:
        raise _InvalidYaml(_yaml_error(error)) from None


def _pairs(
    node: Any, path: tuple[str, ...], within: tuple[int, ...]
) -> Iterator[tuple[str, str, str, int]]:
    """Yield the leaves of a mapping as (path, key, text, line); cut off cycles and deep nesting."""
    if id(node) in within or len(path) > MAX_DEPTH:
        return
    for key_node, value_node in node.value:
        key = str(key_node.value) if isinstance(key_node.value, str) else ""
        place = (*path, key)
        line = key_node.start_mark.line
        if value_node.id == "mapping":
            yield from _pairs(value_node, place, (*within, id(node)))
        elif value_node.id == "sequence":
            items = [str(item.value) for item in value_node.value if isinstance(item.value, str)]
            yield "\0".join(place), ".".join(place), "; ".join(items[:1000]), line
        else:
            text = str(value_node.value).strip()
            if value_node.style is None and value_node.value in ("~", "null", "Null", "NULL"):
                text = ""
            yield "\0".join(place), ".".join(place), text, line


# --- Kubernetes -----------------------------------------------------------------------------------


def _options_of_resources(text: str) -> OptionFile:
    """Read the options of a Kubernetes file, in which only one resource may contain options."""
    if len(text) > MAX_BYTES:  # a truncated YAML document would be invalid
        return OptionFile(dialect="yaml")
    try:
        found = [
            each for root in _documents(text) for each in _resources(root) if _has_options(*each)
        ]
    except _InvalidYaml as error:
        # An error elsewhere in the text does not affect the configuration.
        is_resource_text = _TOP_LEVEL_KIND.search(text) is not None
        return OptionFile(dialect="yaml", error=str(error) if is_resource_text else None)
    if len(found) > 1:
        return OptionFile(dialect="yaml", several=tuple(_name_of(node) for _, node in found))
    return _options_in_resource(text, *found[0]) if found else OptionFile(dialect="yaml")


_TOP_LEVEL_KIND: Final = re.compile(
    r"^(?:kind: ?| {1,4}\"kind\": ?\")(?:ConfigMap|FlinkDeployment|FlinkSessionJob)\b",
    re.MULTILINE,
)
_FILES: Final = ("flink-conf.yaml", "config.yaml")


def _has_options(kind: str, node: Any) -> bool:
    """Return whether a resource contains options, or a status that reports a problem."""
    if kind == "ConfigMap":
        return any(_child(_child(node, "data"), name) is not None for name in _FILES)
    if kind not in _KINDS:
        return False
    spec = _child(node, "spec")
    sizes = (_child(_child(spec, role), "resource") for role in ("jobManager", "taskManager"))
    parts = (_child(spec, "flinkConfiguration"), *sizes, _child(node, "status"))
    return kind == "FlinkDeployment" or any(part is not None for part in parts)


def _resources(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield the kind and node of a resource, or of each resource in a `kubectl get -o yaml` list."""
    items = _child(root, "items")
    for node in items.value if getattr(items, "id", "") == "sequence" else [root]:
        kind = _child(node, "kind")
        if kind is not None and isinstance(kind.value, str):
            yield kind.value, node


def _name_of(node: Any) -> str:
    name = _child(_child(node, "metadata"), "name")
    return name.value if name is not None and isinstance(name.value, str) else "no name"


def _options_in_resource(text: str, kind: str, root: Any) -> OptionFile:
    if kind == "ConfigMap":
        data = _child(root, "data")
        for name in _FILES:
            inner = _child(data, name)
            if inner is not None and isinstance(inner.value, str):
                read = read_options(inner.value, name=name)
                return OptionFile(
                    dialect=read.dialect,
                    options=read.options,
                    duplicates=read.duplicates,
                    skipped=read.skipped,
                    error=read.error,
                    carrier=kind,
                )
        return OptionFile(dialect="yaml", carrier=kind)
    spec = _child(root, "spec")
    read = _options_in_node(text, _child(spec, "flinkConfiguration"), carrier=kind)
    options = dict(read.options)
    for role in ("jobManager", "taskManager"):
        memory = _child(_child(_child(spec, role), "resource"), "memory")
        if memory is not None and isinstance(memory.value, str):
            # The operator uses the container's memory as the total process memory; 2Gi becomes 2g.
            size = re.sub(
                r"^([0-9]+)([KMGT])i$", lambda hit: hit[1] + hit[2].lower(), memory.value.strip()
            )
            options.setdefault(f"{role.lower()}.memory.process.size", size)
    return OptionFile(
        dialect="yaml",
        options=options,
        offsets=read.offsets,
        duplicates=read.duplicates,
        error=read.error,
        carrier=kind,
        trouble=_status_problem(root),
    )


# States of a FlinkDeployment or FlinkSessionJob that indicate a problem, most specific first (Flink Kubernetes
# Operator 1.x, CommonStatus, FlinkDeploymentStatus).
_STATES: Final = (
    (("lifecycleState",), {"FAILED", "ROLLING_BACK", "ROLLED_BACK"}),
    (("reconciliationStatus", "state"), {"ROLLING_BACK", "ROLLED_BACK"}),  # operator 1.0
    (("jobStatus", "state"), {"FAILED", "FAILING", "SUSPENDED"}),
    (("jobManagerDeploymentStatus",), {"ERROR", "MISSING"}),
)
_EXPECTED: Final = {"SUSPENDED", "MISSING"}
"""States that are normal for a suspended job, or while the operator replaces the job."""
_IN_BETWEEN: Final = (
    (("spec", "job", "state"), {"suspended"}),
    (("status", "lifecycleState"), {"CREATED", "SUSPENDED", "UPGRADING", "DELETING", "DELETED"}),
    (("status", "reconciliationStatus", "state"), {"UPGRADING"}),  # operator 1.0
)


def _status_problem(root: Any) -> str | None:
    """Return the problem in the status of a resource: the deepest exception or, without one, an abnormal state."""
    status = _child(root, "status")
    error = _child(status, "error")
    if (
        error is not None
        and isinstance(error.value, str)
        and error.value.strip() not in ("", "null")
    ):
        return f"error: {operator_error(error.value)}"
    replaced = any(_text_at(root, path) in states for path, states in _IN_BETWEEN)
    for path, bad in _STATES:
        state = _text_at(status, path)
        if state in bad and not (replaced and state in _EXPECTED):
            return f"{'.'.join(path)}: {state}"
    return None


def _text_at(node: Any, path: tuple[str, ...]) -> str | None:
    for key in path:
        node = _child(node, key)
    return node.value if node is not None and isinstance(node.value, str) else None


def _child(node: Any, key: str) -> Any:
    if node is None or getattr(node, "id", "") != "mapping":
        return None
    return next((value for name, value in node.value if name.value == key), None)
