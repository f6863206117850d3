"""Completion in real shells: each sources its generated script and receives a Tab key.

PowerShell is tested through the variables of its script only, because no package registry has it.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flowdiag.analyses.topics import all_rules

pytestmark = [
    pytest.mark.command,
    pytest.mark.skipif(sys.platform == "win32", reason="shells of POSIX systems"),
]
PATIENCE_S = 120
RULE = next(rule.code for rule in all_rules() if rule.code.startswith("CP2"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    folder = str(Path(sys.executable).parent)
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
    }


def script_of(shell: str, environ: dict[str, str]) -> str:
    """Return the script that `flowdiag --show-completion` prints in this shell."""
    return subprocess.run(
        ["flowdiag"],
        env={**environ, "_FLOWDIAG_COMPLETE": f"source_{shell}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    ).stdout


def requires(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}")


@requires("bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [(["expl"], "explain"), (["explain", RULE[:4].lower()], RULE.lower())],
    ids=["command", "rule"],
)
def test_bash(words: list[str], expected: str, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script_of("bash", environ))
    line = f"""
        source ./script
        COMP_WORDS=(flowdiag {" ".join(words)}); COMP_CWORD={len(words)}
        _flowdiag_completion flowdiag {words[-1]}
        printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p flowdiag"""
    done = subprocess.run(
        ["bash", "--norc", "-eu", "-c", line],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    *found, registered = done.stdout.splitlines()
    assert expected in found and registered.endswith("-F _flowdiag_completion flowdiag")


@pytest.mark.full
@requires("fish")
@pytest.mark.parametrize(
    ("line", "expected"),
    [("flowdiag expl", "explain\t"), (f"flowdiag explain {RULE[:4]}", f"{RULE}\t")],
    ids=["command", "rule"],
)
def test_fish(line: str, expected: str, environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script_of("fish", environ))
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source ./script; complete --do-complete '{line}'"],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert any(found.startswith(expected) for found in done.stdout.splitlines()), done


@pytest.mark.full
@requires("zsh")
def test_zsh_completes_on_tab(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script_of("zsh", environ))
    (tmp_path / ".zshrc").write_text(
        "PS1='> '; autoload -U compinit; compinit -u; source ~/script\n"
    )
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execvpe("zsh", ["zsh", "-d", "-i"], environ)
    try:
        read_until(terminal, "> ")
        os.write(terminal, b"flowdiag expl\t")
        read_until(terminal, "explain")
        os.write(terminal, f"{RULE[:4]}\t".encode())
        read_until(terminal, RULE)
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def test_powershell_gets_lines_of_word_and_title(environ: dict[str, str]) -> None:
    script = script_of("powershell", environ)
    assert "Register-ArgumentCompleter -Native -CommandName flowdiag " in script
    done = subprocess.run(
        ["flowdiag"],
        env={
            **environ,
            "_FLOWDIAG_COMPLETE": "complete_powershell",
            "_TYPER_COMPLETE_ARGS": "flowdiag expl",
            "_TYPER_COMPLETE_WORD_TO_COMPLETE": "expl",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert re.fullmatch(r"explain:::\S.*\n?", done.stdout), done


def read_until(terminal: int, text: str) -> str:
    """Return the output of a terminal up to a text.

    Raises:
        AssertionError: the text does not appear.
    """
    found, deadline = "", time.monotonic() + PATIENCE_S
    while text not in found:
        assert time.monotonic() < deadline, found
        if select.select([terminal], [], [], 0.2)[0]:
            found += os.read(terminal, 4096).decode(errors="replace")
    return found
