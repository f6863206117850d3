"""Flink's configuration files as Flink reads them: the flat parser of former times, and YAML.

Up to 1.18 `conf/flink-conf.yaml` is no YAML: one `key: value` per line, `#` begins a comment
anywhere, a pair needs a blank behind its colon, quotes belong to the value, the last of several equal
keys wins and what is no pair is skipped with a warning (`GlobalConfiguration`). From 1.19 on
`conf/config.yaml` is YAML 1.2, nested or flat, where equal keys and tabs in the indentation are
errors that keep the cluster from starting; 1.19 and 1.20 still prefer a flat file that is there.

Also read are the carriers of such options on Kubernetes: a ConfigMap that holds a file, and the
resources of the Flink Kubernetes Operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

MAX_BYTES: Final = 2 * 1024 * 1024
MAX_OPTIONS: Final = 20_000
MAX_DEPTH: Final = 40

# Prefixes of Flink's options; a file whose keys have none of them is somebody else's.
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
    """A key that stands several times; flat files take the last value, YAML refuses the file."""

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
    """The options of one file.

    Args:
        dialect: `flat` or `yaml`.
        options: key to text.
        offsets: byte where the line of each key begins.
        duplicates: keys that stand several times.
        skipped: lines that Flink ignores (flat).
        error: why Flink refuses the whole file (YAML), else None.
        carrier: `ConfigMap` or `FlinkDeployment` where the options stand inside one.
        trouble: what the status of a resource says went wrong; None where nothing did, or it has no status.
        several: the names of the resources where a list holds more than one with options: none is read.
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
    """Whether a text is a configuration of Flink: most of its pairs have keys of Flink's.

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
        if hit is None:
            others += not stripped.lstrip().startswith("-")
            continue
        if stripped[:1] in " \t" and pairs:
            continue  # nested: judged by its head
        pairs += 1
        key = hit[1]
        ours += key.startswith(_FAMILIES) or key in _NESTED_HEADS
    if is_resource(text):
        return True
    return ours > 0 and ours * 2 >= pairs and others <= pairs


# Of a document, of the items of a list, and of either as JSON.
_CARRIER: Final = re.compile(
    r"^[ \t]{0,40}(?:-[ \t]{1,4})?\"?kind\"?:[ \t]{0,8}[\"']?(ConfigMap|FlinkDeployment|FlinkSessionJob)\b",
    re.MULTILINE,
)
_KINDS: Final = ("ConfigMap", "FlinkDeployment", "FlinkSessionJob")


def is_resource(text: str) -> bool:
    """Whether a text is a resource of Kubernetes that may hold options of Flink, or a list of some.

    >>> is_resource('{\\n    "kind": "FlinkDeployment",\\n    "apiVersion": "flink.apache.org/v1beta1"\\n}')
    True
    """
    head = text[:65536]
    return _CARRIER.search(head) is not None and "flink" in head.lower()


def flink_version(text: str) -> tuple[int, int] | None:
    """The version that a FlinkDeployment asks for.

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
    """Read a configuration file in the dialect that Flink would.

    Args:
        text: the whole file.
        name: of the file; in 1.19 and 1.20 it is what decides.
        version: of Flink, where known.
    """
    if _CARRIER.search(text[:65536]):
        return _carried(text)
    file = name.replace("\\", "/").rsplit("/", 1)[-1].lower()
    if version is not None and version >= (2, 0):
        return yaml_options(text)
    if version is not None and version < (1, 19):
        return flat_options(text)
    if file.startswith("flink-conf"):
        return flat_options(text)
    if file.startswith("config.y") or _is_nested(text):
        return yaml_options(text)
    return flat_options(text)


def _is_nested(text: str) -> bool:
    return re.search(r"^[A-Za-z][\w.-]*:[ \t]*\r?\n[ ]+[A-Za-z\"]", text, re.MULTILINE) is not None


def flat_options(text: str) -> OptionFile:
    """The options of `flink-conf.yaml`, as `GlobalConfiguration.loadYAMLResource` reads them.

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
        duplicates=_duplicates(seen, offsets),
        skipped=tuple(skipped),
    )


def _duplicates(seen: Mapping[str, list[str]], offsets: Mapping[str, int]) -> tuple[Duplicate, ...]:
    return tuple(
        Duplicate(key=key, values=tuple(values), offset=offsets.get(key, 0))
        for key, values in seen.items()
        if len(values) > 1
    )


def yaml_options(text: str) -> OptionFile:
    """The options of `config.yaml`: YAML 1.2, nested keys joined by dots (1.19 and later).

    >>> yaml_options("taskmanager:\\n  memory: {process.size: 2g}\\n").options
    {'taskmanager.memory.process.size': '2g'}
    """
    try:
        root = _compose(text)
    except _NoYaml as error:
        return OptionFile(dialect="yaml", error=str(error))
    return _of_node(text, root)


def _of_node(text: str, root: Any, carrier: str | None = None) -> OptionFile:
    if root is None:
        return OptionFile(dialect="yaml", carrier=carrier)
    if getattr(root, "id", "") != "mapping":
        return OptionFile(dialect="yaml", error="the document is no mapping", carrier=carrier)
    options: dict[str, str] = {}
    offsets: dict[str, int] = {}
    seen: dict[str, list[str]] = {}
    lines = _line_starts(text)
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


class _NoYaml(ValueError):
    """The text cannot be read; the message says why, on one line."""


def _compose(text: str) -> Any:
    # Here and not above: most commands never read YAML, and should not wait for it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).compose(text[:MAX_BYTES])
    except RecursionError:
        raise _NoYaml("nested too deeply") from None
    except (YAMLError, ValueError, AttributeError, TypeError) as error:
        raise _NoYaml(_reason(error)) from None


def _reason(error: Exception) -> str:
    """What is wrong with a document, and in which line."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error).split("\n", 1)[0][:200] or "no YAML"
    said = getattr(error, "problem", None) or getattr(error, "context", None) or "no YAML"
    return f"{said} in line {mark.line + 1}"


def _documents(text: str) -> Iterator[Any]:
    """The outermost node of every document."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        yield from YAML(typ="safe", pure=True).compose_all(text)
    except RecursionError:
        raise _NoYaml("nested too deeply") from None
    except (YAMLError, ValueError, AttributeError, TypeError) as error:
        raise _NoYaml(_reason(error)) from None


def _pairs(
    node: Any, path: tuple[str, ...], within: tuple[int, ...]
) -> Iterator[tuple[str, str, str, int]]:
    """Leaves of a mapping: (path, key joined by dots, text, line); cycles and great depth are cut."""
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
            yield "\0".join(place), ".".join(place), _scalar(value_node), line


def _scalar(node: Any) -> str:
    text = str(node.value)
    null = node.style is None and text in ("~", "null", "Null", "NULL")
    return "" if null else text.strip()


def _line_starts(text: str) -> list[int]:
    starts, offset = [], 0
    for line in text.split("\n"):
        starts.append(offset)
        offset += len(line.encode("utf-8", "replace")) + 1
    return starts


# --- Kubernetes -----------------------------------------------------------------------------------


def _carried(text: str) -> OptionFile:
    """The options of the only resource that has some."""
    if len(text) > MAX_BYTES:  # cut, it would be no YAML
        return OptionFile(dialect="yaml")
    try:
        found = [one for root in _documents(text) for one in _resources(root) if _holds(*one)]
    except _NoYaml as error:
        # What is wrong elsewhere in print-outs of several things is nobody's configuration.
        mine = _OUTERMOST.search(text) is not None
        return OptionFile(dialect="yaml", error=str(error) if mine else None)
    if len(found) > 1:
        return OptionFile(dialect="yaml", several=tuple(_name_of(node) for _, node in found))
    return _of_resource(text, *found[0]) if found else OptionFile(dialect="yaml")


_OUTERMOST: Final = re.compile(
    r"^(?:kind: ?| {1,4}\"kind\": ?\")(?:ConfigMap|FlinkDeployment|FlinkSessionJob)\b",
    re.MULTILINE,
)
_FILES: Final = ("flink-conf.yaml", "config.yaml")


def _holds(kind: str, node: Any) -> bool:
    """Whether a resource has options, or a status that tells of trouble."""
    if kind == "ConfigMap":
        return any(_child(_child(node, "data"), name) is not None for name in _FILES)
    if kind not in _KINDS:
        return False
    spec = _child(node, "spec")
    sizes = (_child(_child(spec, role), "resource") for role in ("jobManager", "taskManager"))
    told = (_child(spec, "flinkConfiguration"), *sizes, _child(node, "status"))
    return kind == "FlinkDeployment" or any(part is not None for part in told)


def _resources(root: Any) -> Iterator[tuple[str, Any]]:
    """A document's resource by its kind, or those of a list as `kubectl get -o yaml` prints it."""
    items = _child(root, "items")
    for node in items.value if getattr(items, "id", "") == "sequence" else [root]:
        kind = _child(node, "kind")
        if kind is not None and isinstance(kind.value, str):
            yield kind.value, node


def _name_of(node: Any) -> str:
    name = _child(_child(node, "metadata"), "name")
    return name.value if name is not None and isinstance(name.value, str) else "no name"


def _of_resource(text: str, kind: str, root: Any) -> OptionFile:
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
    read = _of_node(text, _child(spec, "flinkConfiguration"), carrier=kind)
    options = dict(read.options)
    for role in ("jobManager", "taskManager"):
        memory = _child(_child(_child(spec, role), "resource"), "memory")
        if memory is not None and isinstance(memory.value, str):
            # The operator sets it as the size of the whole process, which is the container's.
            options.setdefault(f"{role.lower()}.memory.process.size", _quantity(memory.value))
    return OptionFile(
        dialect="yaml",
        options=options,
        offsets=read.offsets,
        duplicates=read.duplicates,
        error=read.error,
        carrier=kind,
        trouble=_trouble(_child(root, "status")),
    )


# Of a FlinkDeployment's and a FlinkSessionJob's status, in the order in which they tell more (Flink Kubernetes
# operator 1.x, CommonStatus, FlinkDeploymentStatus).
_STATES: Final = (
    (("lifecycleState",), {"FAILED"}),
    (("jobStatus", "state"), {"FAILED", "FAILING", "SUSPENDED"}),
    (("jobManagerDeploymentStatus",), {"ERROR", "MISSING"}),
)


def _trouble(status: Any) -> str | None:
    """What a status says went wrong: its error by the deepest exception, else a state."""
    error = _child(status, "error")
    if (
        error is not None
        and isinstance(error.value, str)
        and error.value.strip() not in ("", "null")
    ):
        return f"error: {_deepest(error.value)}"
    for path, bad in _STATES:
        node = status
        for key in path:
            node = _child(node, key)
        if node is not None and isinstance(node.value, str) and node.value in bad:
            return f"{'.'.join(path)}: {node.value}"
    return None


def _deepest(error: str) -> str:
    """The message of the last exception that the operator lists, with its class; else the text."""
    try:
        said = msgspec.json.decode(error)
        last = (said.get("throwableList") or [said])[-1]
        kind = str(last.get("type") or said["type"]).rpartition(".")[2]
        return f"{kind}: {last['message']}"
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, RecursionError):
        return error.strip()


def _child(node: Any, key: str) -> Any:
    if node is None or getattr(node, "id", "") != "mapping":
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _quantity(text: str) -> str:
    """A quantity of Kubernetes as Flink writes sizes: `2Gi` is `2g`."""
    return re.sub(r"^([0-9]+)([KMGT])i$", lambda hit: hit[1] + hit[2].lower(), text.strip())
