"""The command-line interface without Spark: streams, exit codes, errors, files."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Note, Report
from flowdiag.cli.app import main
from flowdiag.cli.output.console import Progress
from flowdiag.parsers.errors import FlowdiagError

from . import reports

ROOT = Path(__file__).parents[2]
LOG = "2018-11-29 18:43:04,123 INFO  CheckpointCoordinator - Triggering checkpoint 1 @ 1543488184123\n"


class NoSpark:
    """Replaces Spark, which these tests do not need."""

    on_cluster = False
    cores = 1
    folder = Path()

    @classmethod
    def begin(cls, **how: Any) -> NoSpark:
        return cls()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def session(self) -> None: ...

    def replace_lost_java(self) -> bool:
        return False

    def explain_failures(self) -> nullcontext[None]:
        return nullcontext()

    def tune(self, rows: int | None) -> None: ...

    def environment_error(self, error: Exception) -> None: ...


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "jobmanager.log"
    path.write_text(LOG * 50)
    return str(path)


@pytest.fixture
def set_diagnosis(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], list[Any]]]:
    """Replace the diagnosis: the yielded function sets its result and returns the list of its options."""
    monkeypatch.setattr("flowdiag.cli.spark.starter.SparkStarter", NoSpark)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def set_result(result: Any) -> list[Any]:
        seen: list[Any] = []

        def diagnose(topics: Any, inputs: Any, session: Any, options: Any, **_: Any) -> Report:
            seen.append(options)
            if isinstance(result, BaseException):
                raise result
            return result  # type: ignore[no-any-return]

        monkeypatch.setattr("flowdiag.analyses.diagnosis.diagnose", diagnose)
        return seen

    yield set_result


def test_json_on_stdout_parses_while_warnings_go_to_stderr(
    log: str, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(reports.failing(warnings=(Note(message="ends early", source="a.gz"),)))
    assert main(["checkpoints", log, "--format", "json"]) == 1
    out, err = capfdbinary.readouterr()
    assert json.loads(out)["warnings"][0]["message"] == "ends early"
    assert err == b"warning: a.gz: ends early\n"


def test_quiet(
    log: str, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(reports.failing(warnings=(Note(message="ends early"),)))
    assert main(["checkpoints", log, "-q", "--fail-on", "never"]) == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(b"flowdiag checkpoints  failing") and err == b""


@pytest.mark.parametrize(
    ("kind", "code"), [("healthy", 0), ("failing", 1), ("inconclusive", 3), ("nothing", 3)]
)
def test_each_verdict_prints_a_document(
    kind: str,
    code: int,
    log: str,
    set_diagnosis: Callable[[Any], Any],
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    set_diagnosis(getattr(reports, kind)())
    assert main(["checkpoints", log, "--format", "json"]) == code
    assert json.loads(capfdbinary.readouterr().out)["schema"] == "flowdiag.report/1"


def test_a_bug_is_reported_and_leaves_a_document(
    log: str, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(ZeroDivisionError("oops"))
    assert main(["checkpoints", log, "--format", "json"]) == 4
    out, err = capfdbinary.readouterr()
    document = json.loads(out)
    assert document["errors"][0]["message"] == "this is a bug in flowdiag: ZeroDivisionError: oops"
    assert document["summary"]["verdict"] == "inconclusive"
    assert err.decode() == (
        "error: this is a bug in flowdiag: ZeroDivisionError: oops\n"
        "  hint: please report it, and include the command line; --debug shows the traceback\n"
    )


def test_debug_shows_the_traceback_of_a_bug(
    log: str, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(ZeroDivisionError("oops"))
    assert main(["checkpoints", log, "--debug"]) == 4
    assert b"Traceback (most recent call last):" in capfdbinary.readouterr().err


def test_user_errors(
    log: str, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(FlowdiagError("no usable Java", hint="pip install 'flowdiag[java]'"))
    assert main(["checkpoints", log, "--format", "json"]) == 2
    out, err = capfdbinary.readouterr()
    assert (out, err) == (
        b"",
        b"error: no usable Java\n  hint: pip install 'flowdiag[java]'\n",
    )


def test_ctrl_c(log: str, set_diagnosis: Callable[[Any], Any]) -> None:
    set_diagnosis(KeyboardInterrupt())
    assert main(["checkpoints", log]) == 130


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["checkpoints"], "error: missing argument 'PATH...'"),
        (["checkpoints", "x", "--formt", "json"], "error: no such option: --formt"),
        (["checkpoints", "x", "--format", "yaml"], "'-f': 'yaml' is not one of"),
        (["checkpoints", "/no/such/file"], "error: /no/such/file: no such file or directory"),
        (["checkpoints", "x", "--since", "soon"], "error: 'soon' is not a time"),
        (["checkpoints", "x", "--tz", "Mars/Base"], "error: unknown time zone 'Mars/Base'"),
        (["checkpoints", "x", "--config", "none.toml"], "settings file 'none.toml' does not exist"),
        (["checkpoint"], "error: no such command 'checkpoint'"),
        (["explain", "CP999"], "error: there is no rule, cause, code or component 'CP999'"),
        (["render", "none.json"], "error: cannot read 'none.json'"),
        (["render", str(ROOT / "pyproject.toml")], "is not a flowdiag report"),
    ],
)
def test_wrong_usage(
    arguments: list[str], error: str, set_diagnosis: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(reports.healthy())
    assert main(arguments) == 2
    out, err = capfdbinary.readouterr()
    assert out == b""
    assert error.lower() in err.decode().lower()
    assert "Traceback" not in err.decode()


def test_a_missing_input_among_others(
    log: str, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    set_diagnosis(reports.healthy())
    assert main(["checkpoints", log, "/no/such/file"]) == 0
    assert main(["checkpoints", log, "/no/such/file", "--strict-inputs"]) == 2
    assert b"error: /no/such/file: no such file" in capfdbinary.readouterr().err


def test_a_damaged_input_with_strict_inputs(log: str, set_diagnosis: Callable[[Any], Any]) -> None:
    set_diagnosis(
        reports.build(
            reports.job_facts(is_failing=False), reports.outcome("CP101", "x"), error="ends early"
        )
    )
    assert main(["checkpoints", log]) == 0
    assert main(["checkpoints", log, "--strict-inputs"]) == 2


def test_inputs_that_are_not_logs(
    tmp_path: Path, set_diagnosis: Callable[[Any], Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    # `set_diagnosis` has replaced Spark with a class without a session.
    (tmp_path / "image.bin").write_bytes(bytes(range(256)) * 40)
    assert main(["checkpoints", str(tmp_path), "--format", "json"]) == 3
    out, err = capfdbinary.readouterr()
    document = json.loads(out)
    assert [item["kind"] for item in document["inputs"]] == ["not-read"]
    assert document["inputs"][0]["reason"]
    assert b"nothing to diagnose in 1 input, 0 read: " in err


def test_options_reach_the_diagnosis(log: str, set_diagnosis: Callable[[Any], Any]) -> None:
    seen = set_diagnosis(reports.healthy())
    main(["checkpoints", log, "--since", "2h", "--job", "or*", "--tz", "+08:00", "--no-excerpts"])
    options = seen[0]
    assert options.selection.since.before_end_us == 7_200_000_000
    assert (options.selection.job, options.tz, options.privacy.excerpts) == (
        "or*",
        "Etc/GMT-8",
        False,
    )


def test_output_is_complete_or_absent(
    log: str, tmp_path: Path, set_diagnosis: Callable[[Any], Any], capfdbinary: Any
) -> None:
    set_diagnosis(reports.failing())
    target = tmp_path / "report.json"
    assert main(["checkpoints", log, "-f", "json", "-o", str(target)]) == 1
    assert json.loads(target.read_text())["summary"]["verdict"] == "failing"
    assert capfdbinary.readouterr().out == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobmanager.log", "report.json"]
    assert main(["checkpoints", log, "-o", str(tmp_path / "none" / "report.json")]) == 2
    assert b"error: cannot write" in capfdbinary.readouterr().err


def test_render_shows_a_saved_report(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    saved = tmp_path / "report.json"
    saved.write_bytes(encode(reports.failing()))
    assert main(["render", str(saved), "-f", "markdown"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"# flowdiag checkpoints: failing")
    assert main(["render", str(saved), "-f", "json"]) == 0
    assert capfdbinary.readouterr().out == saved.read_bytes()
    assert main(["render", str(saved), "-f", "json", "--redact"]) == 0
    assert b"worker-3" not in capfdbinary.readouterr().out


def test_render_rejects_another_schema(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    saved = tmp_path / "report.json"
    saved.write_text('{"schema": "flowdiag.report/9"}')
    assert main(["render", str(saved)]) == 2
    assert b"has the schema 'flowdiag.report/9'" in capfdbinary.readouterr().err


def test_rules_and_explain(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["rules"]) == 0
    listed = capfdbinary.readouterr().out.decode()
    code = listed.splitlines()[2].split()[0]  # below the command and the severity
    assert main(["explain", code.lower()]) == 0
    page = capfdbinary.readouterr().out.decode()
    assert page.startswith(code)
    for heading in ("What it reports", "How it decides", "False alarms"):
        assert f"\n{heading}\n" in page


def test_without_arguments_help_goes_to_stderr(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main([]) == 2
    out, err = capfdbinary.readouterr()
    assert out == b"" and err.startswith(b"Find the culprit when a Flink or Spark")


def test_help_begins_with_examples(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["checkpoints", "--help"]) == 0
    assert (
        capfdbinary.readouterr()
        .out.decode()
        .startswith("""\
Find out why Flink's checkpoints fail or are slow, and which subtask causes it.

Examples
  flowdiag checkpoints logs/
  flowdiag checkpoints jobmanager.log taskmanager-*.log.gz --since 2h
  kubectl logs my-jobmanager | flowdiag checkpoints -
  flowdiag checkpoints logs/ --job 'orders-*' --format json | jq .summary

Usage  flowdiag checkpoints [OPTIONS] PATH...
""")
    )


@pytest.mark.parametrize(
    "command",
    [
        *("diagnose", "checkpoints", "rate", "queues", "startup", "memory", "compare", "next"),
        *("collect flink", "collect k8s", "simulate credits"),
    ],
)
def test_help_fits_one_screen(
    command: str, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*command.split(), "--help"]) == 0
    assert len(capfdbinary.readouterr().out.decode().splitlines()) <= 60


def test_version(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert main(["--version"]) == 0
    assert capfdbinary.readouterr().out.decode() == f"flowdiag {version}\n"


HEAVY_MODULES = "pyspark|py4j|pandas|pyarrow|numpy|regex"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--help"], ["checkpoints", "--help"], ["rules", "-f", "json"], ["explain", "CP101"]),
        *(["render"], ["schema"], ["checkpoints", "--show-config"]),
    ],
)
def test_light_commands_import_no_heavy_modules(arguments: list[str], tmp_path: Path) -> None:
    if arguments == ["render"]:
        (tmp_path / "report.json").write_bytes(encode(reports.failing()))
        arguments = ["render", "report.json"]
    code = (
        "import sys; from flowdiag.cli.app import main; code = main(sys.argv[1:]);"
        f"heavy = {set(HEAVY_MODULES.split('|'))!r} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )
    done = subprocess.run(  # noqa: PLW1510 - the code is asserted
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_help_is_fast() -> None:
    """Measured as CPU time, because wall time depends on the load of the host."""
    code = (
        "import sys, time; from flowdiag.cli.app import main; main(['--help']);"
        "sys.exit(f'{time.process_time()} s' if time.process_time() > 0.4 else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


class FakeTerminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_progress_is_erased_from_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys, "stderr", FakeTerminal())
    with Progress() as progress:
        progress("reading 14 inputs, 3.2 GB of logs")
    shown = cast(FakeTerminal, sys.stderr).getvalue()
    assert shown == "\r\x1b[2Kreading 14 inputs, 3.2 GB of \r\x1b[2K"
    with Progress(quiet=True) as progress:
        progress("reading")
    assert cast(FakeTerminal, sys.stderr).getvalue() == shown


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    saved.write_bytes(encode(reports.failing()))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(  # noqa: PLW1510 - the code is asserted
        [sys.executable, "-m", "flowdiag.cli", "render", str(saved)],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_stdout_of_an_ascii_terminal(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    saved.write_bytes(encode(reports.failing()))
    done = subprocess.run(  # noqa: PLW1510 - the code is asserted
        [sys.executable, "-m", "flowdiag.cli", "render", str(saved)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0 and done.stdout.isascii()
    assert b"EEEE.D.~" in done.stdout


@pytest.mark.parametrize(
    ("option", "terminal", "environ", "colored"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": "", "FORCE_COLOR": ""}, True),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("auto", False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_color_depends_on_the_option_then_the_environment_then_the_terminal(
    option: str,
    terminal: bool,
    environ: dict[str, str],
    colored: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flowdiag.cli.output.console import use_color
    from flowdiag.cli.settings import When

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TERM": "xterm"} | environ).items():
        monkeypatch.setenv(name, value)
    stream: Any = SimpleNamespace(isatty=lambda: terminal)
    assert use_color(stream, When(option)) is colored


@pytest.fixture
def saved_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from flowdiag.analyses.contract.encoding import encode

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    saved = tmp_path / "report.json"
    saved.write_bytes(encode(reports.failing()))
    return saved


def test_color_can_be_a_flag_a_variable_or_a_setting(
    saved_report: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def colored(*flags: str) -> bool:
        assert main(["render", str(saved_report), *flags]) == 0
        return "\x1b[" in capfd.readouterr().out

    assert not colored() and colored("--color", "always")
    monkeypatch.setenv("FLOWDIAG_COLOR", "always")
    assert colored() and not colored("--color", "never") and not colored("--no-color")
    monkeypatch.delenv("FLOWDIAG_COLOR")
    (saved_report.parent / "flowdiag.toml").write_text("color = 'always'\n")
    assert colored() and not colored("--color=auto")
    kept = saved_report.with_name("report.txt")
    assert main(["render", str(saved_report), "-o", str(kept), "--color=always"]) == 0
    assert "\x1b[" in kept.read_text()
    assert main(["render", str(saved_report), "--color", "sometimes"]) == 2
    assert "error: invalid value for '--color': 'sometimes'" in capfd.readouterr().err


def test_times_use_the_requested_time_zone_except_in_json(
    saved_report: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def shown(*flags: str) -> str:
        assert main(["render", str(saved_report), *flags]) == 0
        return capfd.readouterr().out

    assert "2018-11-29 18:30:00 to 19:02:11 UTC+08:00" in shown()
    berlin = shown("--show-tz", "Europe/Berlin")
    assert "2018-11-29 11:30:00 to 12:02:11 Europe/Berlin" in berlin
    assert "  11:30:00 #200  " in berlin and "since 11:54:00" in berlin
    assert "16:00:00 to 16:32:11 UTC+05:30" in shown("--show-tz", "+05:30", "-f", "markdown")
    plain = shown("-f", "json")
    monkeypatch.setenv("FLOWDIAG_SHOW_TZ", "utc")
    assert "2018-11-29 10:30:00 to 11:02:11 UTC\n" in shown() + "\n"
    assert shown("-f", "json", "--show-tz", "Asia/Tokyo") == plain
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert "2018-11-29 05:30:00 to 06:02:11 local time" in shown("--show-tz", "local")
    monkeypatch.undo()
    time.tzset()
    assert main(["render", str(saved_report), "--show-tz", "Mars"]) == 2
    stderr = capfd.readouterr().err
    assert stderr == (
        "error: unknown time zone 'Mars'\n  hint: examples: Europe/Berlin, UTC, +02:00, local\n"
    )
