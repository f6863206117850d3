"""Flags override variables, then the file, then defaults. Unknown names are errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flowdiag.analyses.selection.choice import rule_overrides
from flowdiag.analyses.selection.options import MAX_ROWS, Options
from flowdiag.analyses.topics import all_rules
from flowdiag.cli.settings import (
    OTHER_VARIABLES,
    FailOn,
    Format,
    Settings,
    load_settings,
    resolve_settings,
)
from flowdiag.parsers.errors import FlowdiagError

ROOT = Path(__file__).parents[2]


def load(
    tmp_path: Path, file: str = "", environ: dict[str, str] | None = None, **flags: object
) -> Settings:
    if file:
        (tmp_path / "flowdiag.toml").write_text(file)
    return load_settings(flags, environ=environ or {}, folder=tmp_path)


def test_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()
    assert load(tmp_path).format is Format.TABLE and load(tmp_path).fail_on is FailOn.WARNING


def test_precedence(tmp_path: Path) -> None:
    file = 'format = "markdown"\nfail-on = "critical"\nmax-rows = 5\n'
    environ = {"FLOWDIAG_FORMAT": "json", "FLOWDIAG_FAIL_ON": "info", "PATH": "/bin"}
    settings = load(tmp_path, file, environ, format=Format.JUNIT, fail_on=None)
    assert (settings.format, settings.fail_on, settings.max_rows) == (Format.JUNIT, FailOn.INFO, 5)


def test_a_named_file_replaces_the_file_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("quiet = true\n")
    (tmp_path / "flowdiag.toml").write_text("quiet = false\n")
    other = str(tmp_path / "other.toml")
    assert load_settings({}, config=other, environ={}, folder=tmp_path).quiet
    assert load(tmp_path, environ={"FLOWDIAG_CONFIG": other}).quiet


@pytest.mark.parametrize(
    ("file", "environ", "message", "hint"),
    [
        ("fail-onn = 'info'", {}, "unknown key 'fail-onn'", "did you mean 'fail-on'?"),
        ("fail-on = 'bad'", {}, "'fail-on' in ", None),
        ("max-rows = 'many'", {}, "expected `int`, got `str`", None),
        ("max-rows = 0", {}, "must be at least 1", None),
        ("= 1", {}, "is not valid TOML", None),
        ("", {"FLOWDIAG_FORMATT": "json"}, "FLOWDIAG_FORMATT", "did you mean 'FLOWDIAG_FORMAT'?"),
        ("", {"FLOWDIAG_REDACT": "maybe"}, "FLOWDIAG_REDACT is 'maybe'", "write 1 or 0"),
        ("", {"FLOWDIAG_MAX_ROWS": "ten"}, "FLOWDIAG_MAX_ROWS is 'ten'", "write a number"),
        ("", {"FLOWDIAG_CONFIG": "none.toml"}, "settings file 'none.toml' does not exist", None),
    ],
)
def test_errors_name_the_wrong_setting(
    tmp_path: Path, file: str, environ: dict[str, str], message: str, hint: str | None
) -> None:
    with pytest.raises(FlowdiagError) as error:
        load(tmp_path, file, environ)
    assert message in error.value.message
    assert error.value.hint == hint


def test_switches_from_the_environment(tmp_path: Path) -> None:
    environ = {"FLOWDIAG_REDACT": "1", "FLOWDIAG_QUIET": "off", "FLOWDIAG_TZ": "Asia/Tokyo"}
    settings = load(tmp_path, environ=environ)
    assert (settings.redact, settings.quiet, settings.tz) == (True, False, "Asia/Tokyo")


def test_thresholds_by_code_or_name(tmp_path: Path) -> None:
    rule = next(rule for rule in all_rules() if rule.thresholds)
    name = rule.thresholds[0].name
    for key in (rule.code, rule.name):
        settings = load(tmp_path, f"[thresholds.{key}]\n{name} = 7\n")
        assert rule_overrides(settings.thresholds, all_rules()) == {rule.code: {name: 7.0}}


def test_unknown_thresholds(tmp_path: Path) -> None:
    rule = next(rule for rule in all_rules() if rule.thresholds)
    with pytest.raises(FlowdiagError, match="there is no rule 'CP999'"):
        rule_overrides(load(tmp_path, "[thresholds.CP999]\nx = 1\n").thresholds, all_rules())
    settings = load(tmp_path, f"[thresholds.{rule.code}]\nnone = 1\n")
    with pytest.raises(FlowdiagError, match=f"{rule.code} has no threshold 'none'"):
        rule_overrides(settings.thresholds, all_rules())


def test_every_variable_in_the_code_is_listed() -> None:
    """The settings would reject a variable that is missing from their list as unknown."""
    named = {
        name
        for folder in ("cli", "analyses", "parsers")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r'"(FLOWDIAG_[A-Z_]+)"', path.read_text())
    }
    known = {f"FLOWDIAG_{f.upper()}" for f in Settings.__struct_fields__} | OTHER_VARIABLES
    assert named <= known


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("r.json", Format.JSON),
        ("R.MD", Format.MARKDOWN),
        ("r.xml", Format.JUNIT),
        ("json", Format.TABLE),
    ],
)
def test_the_name_of_the_output_sets_the_format(name: str, form: Format, tmp_path: Path) -> None:
    assert resolve_settings({"output": name}, environ={}, folder=tmp_path).settings.format is form


def test_an_output_named_html_is_a_page(tmp_path: Path) -> None:
    page = resolve_settings(
        {"output": "Report.HTML"}, environ={"FLOWDIAG_FORMAT": "json"}, folder=tmp_path
    )
    assert page.settings.format is Format.HTML
    assert page.given["format"].place == "--output"
    explicit = resolve_settings({"output": "x.html", "format": "json"}, environ={}, folder=tmp_path)
    assert explicit.settings.format is Format.JSON
    other = resolve_settings({"output": "html"}, environ={}, folder=tmp_path)
    assert other.settings.format is Format.TABLE


def test_the_command_line_and_the_library_cut_lists_alike() -> None:
    assert Settings().max_rows == Options().max_rows == MAX_ROWS
