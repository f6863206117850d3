"""Settings: flags override `FLOWDIAG_*` variables, which override `flowdiag.toml`, which overrides defaults.

Each setting is one field of `Settings`. Its flag is `--field-name`, its variable
`FLOWDIAG_FIELD_NAME`, its key in the file `field-name`. Unknown keys are errors, with a suggestion.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flowdiag.parsers.errors import FlowdiagError, nearest

if TYPE_CHECKING:
    from flowdiag.analyses.model.finding import Severity

FILE: Final = "flowdiag.toml"
PREFIX: Final = "FLOWDIAG_"
_LONGEST_STAY_MS: Final = 86_400_000
_LEAST_HEAP: Final = 512 << 20  # Spark does not start with 450 MB


class Format(StrEnum):
    """Output formats; `flowdiag.cli.render.RENDERERS` has a renderer for each."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"
    MARKDOWN = "markdown"
    JUNIT = "junit"
    GITHUB = "github"
    BRIEF = "brief"


class When(StrEnum):
    """When to use features that only some terminals support, such as color and links."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Listing(StrEnum):
    """Output formats of lists."""

    TABLE = "table"
    JSON = "json"


class FailOn(StrEnum):
    """Lowest severity that leads to exit code 1."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"
    NEVER = "never"

    @property
    def severity(self) -> Severity | None:
        from flowdiag.analyses.model.finding import Severity

        return None if self is FailOn.NEVER else Severity(self.value)


class Warm(StrEnum):
    """Whether an interactive run caches Java's classes for faster starts (`flowdiag warm`)."""

    AUTO = "auto"
    NEVER = "never"


class MinSeverity(StrEnum):
    """Lowest severity of findings to report."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


Overrides = Mapping[str, Mapping[str, float]]


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True
):
    """The effective settings of one run."""

    format: Format = Format.TABLE
    output: str | None = None
    data_dir: str | None = None
    fail_on: FailOn = FailOn.WARNING
    allow_inconclusive: bool = False
    baseline: str | None = None
    min_severity: MinSeverity = MinSeverity.INFO
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    strict_inputs: bool = False
    tz: str | None = None
    max_rows: int = 10_000
    redact: bool = False
    no_excerpts: bool = False
    color: When = When.AUTO
    no_color: bool = False
    hyperlinks: When = When.AUTO
    show_tz: str | None = None
    master: str | None = None
    java_heap: str | None = None
    stay: str | None = None
    warm: Warm = Warm.AUTO
    quiet: bool = False
    verbose: int = 0
    debug: bool = False
    thresholds: Overrides = {}


# Settings that only make sense for one run, or that a variable cannot hold.
NOT_IN_FILE: Final = frozenset({"output", "data-dir", "debug"})
_NOT_IN_ENVIRONMENT: Final = frozenset({"output", "data-dir", "debug", "thresholds", "verbose"})
# Credentials for `flowdiag collect`, which are accepted only this way or from files.
CREDENTIAL_VARIABLES: Final = frozenset(
    {"FLOWDIAG_COLLECT_TOKEN", "FLOWDIAG_COLLECT_USER", "FLOWDIAG_COLLECT_PASSWORD"}
)
# Set for the command of `--exec`, which may call flowdiag itself.
HOOK_VARIABLES: Final = frozenset(
    f"FLOWDIAG_{name}"
    for name in (
        *("ROUND", "VERDICT", "VERDICT_BEFORE"),
        *("NEW", "GONE", "WORSE", "BETTER", "NOT_ASSESSED"),
    )
)
# Variables that other parts of flowdiag read; listed here so that typos are detected.
OTHER_VARIABLES: Final = (
    frozenset({"FLOWDIAG_CONFIG", "FLOWDIAG_CACHE_DIR", "FLOWDIAG_WITHOUT"})
    | CREDENTIAL_VARIABLES
    | HOOK_VARIABLES
)

_LISTS: Final = frozenset({"select", "ignore"})  # lists of words, or one comma-separated text

_FORMATS: Final = {
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".json": Format.JSON,
    ".md": Format.MARKDOWN,
    ".xml": Format.JUNIT,
}
"""The output formats by the file name extension that selects them."""

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


class Origin(StrEnum):
    """The layer that a value comes from."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value from one layer; `where` is the flag, the variable or the file."""

    value: Any
    origin: Origin
    where: str
    key: str

    @property
    def place(self) -> str:
        """Where the user set the value, for error messages."""
        return f"'{self.key}' in '{self.where}'" if self.origin is Origin.FILE else self.where


Layer = dict[str, GivenValue]  # by key


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The merged settings of one run. `given` has the values that are not defaults; `file` is the settings file."""

    settings: Settings
    given: Layer
    file: str | None


def load_settings(
    flags: Mapping[str, Any],
    *,
    config: str | None = None,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> Settings:
    """Return the merged settings; see `resolve_settings`."""
    return resolve_settings(flags, config=config, environ=environ, folder=folder).settings


def resolve_settings(
    flags: Mapping[str, Any],
    *,
    config: str | None = None,
    environ: Mapping[str, str] = os.environ,
    folder: Path | None = None,
) -> EffectiveSettings:
    """Merge the layers.

    Args:
        flags: values of the command line by field name; None for those not given.
        config: `--config` (default: `FLOWDIAG_CONFIG`, then `flowdiag.toml` in `folder`).
        environ: the environment variables.
        folder: folder of the settings file (default: the working directory).

    Raises:
        FlowdiagError: an unknown key, a value of the wrong type, or an unreadable file.
    """
    file, values = _from_file(config or environ.get(f"{PREFIX}CONFIG") or None, folder or Path())
    values |= _from_environment(environ)
    for name, value in flags.items():
        if value is not None:
            key = name.replace("_", "-")
            values[key] = GivenValue(_split_list(key, value), Origin.FLAG, f"--{key}", key)
    named = _format_of(values.get("output"))
    if named is not None and not _is_flag(values.get("format")):
        values["format"] = GivenValue(named, Origin.FLAG, "--output", "format")
    try:
        settings = msgspec.convert({key: given.value for key, given in values.items()}, Settings)
    except msgspec.ValidationError as error:
        raise FlowdiagError(*_explain(error, values)) from None
    if settings.max_rows < 1:
        raise FlowdiagError(f"{values['max-rows'].place} must be at least 1")
    if settings.show_tz is not None:
        from flowdiag.analyses.selection.zones import shown_zone

        shown_zone(settings.show_tz)  # fails early, not when the report is rendered
    if settings.java_heap is not None:
        parse_heap(settings.java_heap, values["java-heap"].place)
    if settings.stay is not None:
        parse_stay(settings.stay, values["stay"].place)
    return EffectiveSettings(settings=settings, given=values, file=file)


def _format_of(output: GivenValue | None) -> Format | None:
    """Return the format that the extension of the output file implies, or None."""
    return None if output is None else _FORMATS.get(Path(str(output.value)).suffix.lower())


def _is_flag(given: GivenValue | None) -> bool:
    return given is not None and given.origin is Origin.FLAG


def _split_list(key: str, value: Any) -> Any:
    """Split comma-separated values of list settings.

    >>> _split_list("ignore", "CP101, RT"), _split_list("select", ["CP1,CP2", "RT"]), _split_list("tz", "UTC")
    (['CP101', 'RT'], ['CP1', 'CP2', 'RT'], 'UTC')
    """
    if key not in _LISTS or not isinstance(value, (str, list, tuple)):
        return value
    texts = [value] if isinstance(value, str) else value
    if not all(isinstance(text, str) for text in texts):
        return value
    return [word for text in texts for word in map(str.strip, text.split(",")) if word]


def parse_heap(text: str, where: str = "--java-heap") -> int:
    """Parse a heap size such as 4g or 1500m, in bytes.

    Args:
        text: in Java's notation.
        where: location of the setting, for the error message.

    Raises:
        FlowdiagError: the text is not a size, or too small for Spark.

    >>> parse_heap("2g") == parse_heap("2048 MB") == 2 << 30
    True
    """
    found = re.fullmatch(r"(\d{1,7})\s*([kmgt])(?:i?b)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise FlowdiagError(f"{where} is '{text}', which is not a size", hint="write 4g or 1500m")
    size = int(found[1]) << {"k": 10, "m": 20, "g": 30, "t": 40}[found[2].lower()]
    if size < _LEAST_HEAP:
        raise FlowdiagError(f"{where} is '{text}', too little for Spark", hint="write 512m or more")
    return size


def parse_stay(text: str, where: str = "--stay") -> float:
    """Parse how long Java stays up when idle, in seconds. 0 means that Java ends with the command.

    Args:
        text: a number and a unit (15m, 90s, 1h), or 0.
        where: location of the setting, for the error message.

    Raises:
        FlowdiagError: the text is not a duration, or exceeds a day.

    >>> parse_stay("15m"), parse_stay("0")
    (900.0, 0.0)
    """
    from flowdiag.parsers.units import duration_ms

    ms = 0.0 if text.strip() == "0" else duration_ms(text, bare="")
    if ms is None or not 0 <= ms <= _LONGEST_STAY_MS:
        raise FlowdiagError(
            f"{where} is '{text}', which is not a duration", hint="write 15m, 1h or 0, at most 24h"
        )
    return ms / 1000


def _from_file(config: str | None, folder: Path) -> tuple[str | None, Layer]:
    path = Path(config) if config else folder / FILE
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if config:
            raise FlowdiagError(f"settings file '{config}' does not exist") from None
        return None, {}
    except (OSError, UnicodeDecodeError) as error:
        raise FlowdiagError(f"cannot read '{path}': {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise FlowdiagError(f"'{path}' is not valid TOML: {error}") from None
    keys = _keys(NOT_IN_FILE)
    for key in document:
        if key not in keys:
            raise FlowdiagError(f"unknown key '{key}' in '{path}'", hint=nearest(key, keys))
    return str(path), {
        key: GivenValue(_split_list(key, value), Origin.FILE, str(path), key)
        for key, value in document.items()
    }


def _from_environment(environ: Mapping[str, str]) -> Layer:
    keys = {f"{PREFIX}{key.upper().replace('-', '_')}": key for key in _keys(_NOT_IN_ENVIRONMENT)}
    layer: Layer = {}
    for name, text in environ.items():
        if not name.startswith(PREFIX) or name in OTHER_VARIABLES or not text:
            continue
        if name not in keys:
            raise FlowdiagError(f"unknown variable {name}", hint=nearest(name, keys))
        key = keys[name]
        kind = Settings.__annotations__[key.replace("-", "_")]
        value: Any = text
        if kind == "bool":
            if text.lower() not in _TRUE | _FALSE:
                raise FlowdiagError(f"{name} is '{text}'", hint="write 1 or 0")
            value = text.lower() in _TRUE
        elif kind == "int":
            if not text.strip().isdecimal():
                raise FlowdiagError(f"{name} is '{text}'", hint="write a number")
            value = int(text)
        layer[key] = GivenValue(_split_list(key, value), Origin.ENVIRONMENT, name, key)
    return layer


def _keys(without: frozenset[str]) -> list[str]:
    return [key for key in Settings.__struct_encode_fields__ if key not in without]


def _explain(error: msgspec.ValidationError, values: Layer) -> tuple[str]:
    message, _, place = str(error).partition(" - at `$.")
    key = place.strip("`").split(".")[0].split("[")[0]
    where = values[key].place if key in values else "the settings"
    return (f"{where}: {message[:1].lower()}{message[1:]}",)
