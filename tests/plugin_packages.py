"""Builds and installs two packages with plug-ins for flowdiag: a working one and a broken one."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

# A build backend in the package's own folder, so that pip builds a wheel without a download.
_BACKEND = """
import pathlib, tomllib, zipfile

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    info = f"{name}-{version}.dist-info"
    points = "".join(
        f"[{group}]\\n" + "".join(f"{key} = {value}\\n" for key, value in entries.items())
        for group, entries in project["entry-points"].items()
    )
    files = {str(path): path.read_bytes() for path in sorted(pathlib.Path(name).rglob("*.*")) if "__pycache__" not in path.parts}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\\nName: {project['name']}\\nVersion: {version}\\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    files[f"{info}/entry_points.txt"] = points.encode()
    files[f"{info}/RECORD"] = "".join(f"{each},,\\n" for each in [*files, f"{info}/RECORD"]).encode()
    wheel = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / wheel, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
    return wheel
"""

_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "{name}"
version = "{version}"
{points}
"""

LINE = "2026-01-31 12:00:01,000 ERROR com.acme.AcmeStorage [] - Acme storage refused chk-{number}: over quota"

_GOOD = {
    "acme_flowdiag/__init__.py": "",
    "acme_flowdiag/catalogue.py": """
        from importlib.resources import files

        MESSAGES = files(__package__) / "messages.toml"
    """,
    "acme_flowdiag/messages.toml": """
        engine = "flink"

        [[message]]
        id = "acme-storage-refused"
        event = "external_failure"
        loggers = ["AcmeStorage"]
        anchor = "Acme storage refused "
        pattern = 'Acme storage refused chk-(?<checkpoint>): (?<cause>)'
        versions = "1.4-2.3"
        fields = { kind = "acme-storage" }

        [[message.sample]]
        text = "Acme storage refused chk-7: over quota"
    """,
    "acme_flowdiag/storage_over_quota.py": '''
        """Acme's storage refuses checkpoints.

        What it reports
        ---------------
        Checkpoints that Acme's storage refused.

        How it decides
        --------------
        There are at least `refusals` of them.
        """

        from flowdiag.analyses.flink.helpers import (
            Finding, Iterator, Job, Limits, Rule, incidents, limit, incident_finding,
        )


        class StorageLimits(Limits):
            refusals: float = limit(2, "records", "minimum number of refusals; a single refusal may race with a cleanup")


        def judge(job: Job, limits: StorageLimits) -> Iterator[Finding]:
            found = [
                each
                for each in incidents(job, "external-failure")
                if each.text.get("kind") == "acme-storage"
            ]
            if len(found) >= limits.refusals:
                yield incident_finding(
                    job,
                    found,
                    ongoing=True,
                    title=f"Acme's storage refused {len(found)} checkpoints",
                    explain="Checkpoints fail until space is available.",
                    cause="acme-quota",
                )


        RULE = Rule("ACME101", judge, StorageLimits, causes=("acme-quota",))
    ''',
}
_GOOD_POINTS = """
[project.entry-points."flowdiag.rules"]
checkpoints = "acme_flowdiag.storage_over_quota:RULE"

[project.entry-points."flowdiag.messages"]
acme = "acme_flowdiag.catalogue:MESSAGES"
"""

_BAD = {
    "bad_flowdiag/__init__.py": "",
    "bad_flowdiag/broken.py": "raise RuntimeError('no licence\\n\\x1b[31mred')",
    "bad_flowdiag/taken.py": '''
        """Somebody else's code."""
        from flowdiag.analyses.model.rule import Rule

        def judge(job, limits):
            yield from ()

        TAKEN = Rule("CP101", judge)
        SHORT = Rule("X1", judge)
        FINE = Rule("BAD102", judge)
        NO_TOML = "[[message"
        UNKNOWN_EVENT = """
            [[message]]
            id = "bad"
            event = "no_such_event"
            anchor = "bad things happen"
            pattern = "bad things happen"
            [[message.sample]]
            text = "bad things happen"
        """
        NO_MATCH = UNKNOWN_EVENT.replace("no_such_event", "exception").replace(
            'text = "bad', 'text = "good'
        )
    ''',
}
_BAD_POINTS = """
[project.entry-points."flowdiag.rules"]
checkpoints = "bad_flowdiag.broken:RULE"
"checkpoints.taken" = "bad_flowdiag.taken:TAKEN"
"queues.short" = "bad_flowdiag.taken:SHORT"
"queues.none" = "bad_flowdiag.taken:NO_TOML"
nowhere = "bad_flowdiag.taken:FINE"

[project.entry-points."flowdiag.messages"]
one = "bad_flowdiag.taken:NO_TOML"
two = "bad_flowdiag.taken:UNKNOWN_EVENT"
three = "bad_flowdiag.taken:NO_MATCH"
four = "bad_flowdiag.taken:TAKEN"
"""


def install(folder: Path) -> Path:
    """Build and install both packages, and return the folder for the Python path."""
    target = folder / "installed"
    made = [
        _package(folder, "acme-flowdiag", "1.2", _GOOD_POINTS, _GOOD),
        _package(folder, "bad-flowdiag", "0.1", _BAD_POINTS, _BAD),
    ]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"),
            *("--no-deps", "--no-index", "--no-build-isolation", "--no-compile", "--target"),
            *(str(target), *map(str, made)),
        ],
        check=True,
        timeout=120,
    )
    return target


def _package(folder: Path, name: str, version: str, points: str, files: dict[str, str]) -> Path:
    top = folder / name
    project = _PROJECT.format(name=name, version=version, points=points)
    for path, text in {**files, "pyproject.toml": project, "backend.py": _BACKEND}.items():
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).lstrip())
    return top
