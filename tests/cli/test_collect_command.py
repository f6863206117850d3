"""`flowdiag collect` on the command line: messages, exit codes, interruption."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flowdiag.cli.app import main
from tests.fake_server import RecordedFlink, Reply, serving


def test_collect_prints_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "c"
    with serving(RecordedFlink()) as server:
        code = main(["collect", "flink", server.url, "-o", str(folder), "--for", "0"])
    shown = capsys.readouterr()
    assert code == 0
    assert (
        shown.out.startswith(f"1 snapshot in {folder} (")
        and "the requested time has elapsed" in shown.out
    )
    assert shown.err == ""


def test_messages_contain_no_credentials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWDIAG_COLLECT_TOKEN", "hunter2secret")
    with serving(lambda path, query: Reply(b"no", status=401)) as server:
        url = server.url.replace("//", "//ann:hunter3secret@")
        code = main(["collect", "flink", url, "-o", str(tmp_path / "c")])
    shown = capsys.readouterr()
    assert code == 2 and shown.out == ""
    assert f"{server.url}: the server requires credentials (401)" in shown.err
    assert "hint: pass a token" in shown.err and "hunter" not in shown.err
    assert server.headers[0]["Authorization"] == "Bearer hunter2secret"


def test_a_password_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("ann:s3cret:with:colons\n")
    (tmp_path / "other").write_text("no colon")
    with serving(RecordedFlink()) as server:
        command = [
            "collect",
            "flink",
            server.url,
            "-o",
            str(tmp_path / "c"),
            "--for",
            "0",
            "--quiet",
        ]
        assert main([*command, "--password-file", str(tmp_path / "password")]) == 0
        assert main([*command, "--password-file", str(tmp_path / "other")]) == 2
        assert main([*command, "--token-file", str(tmp_path / "missing")]) == 2
    assert server.headers[0]["Authorization"] == "Basic YW5uOnMzY3JldDp3aXRoOmNvbG9ucw=="


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["flink", "ftp://x", "-o", "c"], "'ftp://x' is not a URL"),
        (
            ["flink", "http://x", "-o", "c", "--every", "often"],
            "'often' is not a valid duration for --every",
        ),
        (["flink", "http://x", "-o", "c", "--every", "10ms"], "minimum: 1s"),
        (["flink", "http://x", "-o", "c", "--ca-file", "missing"], "cannot use the certificate"),
        (
            ["prometheus", "http://x", "-o", "c", "--from", "soon"],
            "'soon' is not a valid time for --from",
        ),
        (
            ["prometheus", "http://x", "-o", "c", "--from", "1h", "--to", "2h"],
            "--from is not before --to",
        ),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["collect", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.command
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(each, marks=pytest.mark.full) for each in (signal.SIGINT, signal.SIGKILL)),
    ],
)
def test_any_signal_leaves_a_valid_folder(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    with serving(RecordedFlink()) as server:
        command = [sys.executable, "-m", "flowdiag.cli", "collect", "flink", server.url]
        command += ["-o", str(folder), "--every", "1s", "--for", "10m"]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                end = time.monotonic() + 60
                while len(list(folder.glob("tick-*"))) < 2 and time.monotonic() < end:
                    time.sleep(0.05)
                process.send_signal(number)
                out, err = process.communicate(timeout=30)
            finally:
                process.kill()
        assert out == ""
        if number is not signal.SIGKILL:
            assert process.returncode == 128 + number
            assert "interrupted" in err and "of this run" in err
        for path in folder.glob("tick-*"):
            assert json.loads(path.read_bytes())["schema"] == "flowdiag.collected/1"
        before = len(list(folder.glob("tick-*")))
        again = [*command[:-4], "--for", "0", "--quiet"]
        assert subprocess.run(again, check=False, capture_output=True).returncode == 0
        assert len(list(folder.glob("tick-*"))) == before + 1


def test_help_does_not_import_an_http_client() -> None:
    code = "import sys; from flowdiag.cli.app import main; main(['collect', 'flink', '--help'])"
    code += "; print([m for m in ('httpx', 'pyspark', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stdout.index("Examples") < done.stdout.index("Usage")
    assert "requests" in done.stdout
