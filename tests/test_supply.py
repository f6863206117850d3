"""Checks that CI installs the requirements of pyproject.toml and rejects known vulnerabilities and
unsuitable licenses.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
CI = ROOT / ".ci"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SYSTEMS = {
    "linux": {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    "darwin": {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    "win32": {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
}


def locked(name: str) -> list[tuple[Requirement, int]]:
    """Return the requirements of a lock file, each with its number of hashes."""
    text = (CI / name).read_text(encoding="utf-8")
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(Requirement(line.split(" --hash")[0]), line.count("--hash=sha256:")) for line in lines]


def dev_requirements() -> Iterator[Requirement]:
    """Return the requirements of an environment with `.[dev]`."""
    yield from map(Requirement, PROJECT["dependencies"])
    yield from map(Requirement, PROJECT["optional-dependencies"]["dev"])


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_covers_all_requirements(python: str, system: str) -> None:
    here = {
        **{key: str(value) for key, value in default_environment().items()},
        **SYSTEMS[system],
        "python_version": python,
        "python_full_version": f"{python}.1",
    }
    versions: dict[str, str] = {}
    for requirement, _hashes in locked("requirements.lock"):
        if requirement.marker is None or Marker(str(requirement.marker)).evaluate(here):
            name = canonicalize_name(requirement.name)
            assert name not in versions, "two versions for one system"
            (versions[name],) = (specifier.version for specifier in requirement.specifier)
    for requirement in dev_requirements():
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not locked: `make lock`"
        assert version in requirement.specifier, (
            f"{requirement} is locked at {version}: `make lock`"
        )


@pytest.mark.parametrize("name", ["requirements.lock", "tools.lock"])
def test_every_locked_package_has_one_version_and_its_hashes(name: str) -> None:
    packages = locked(name)
    assert len(packages) > 10
    for requirement, hashes in packages:
        assert [specifier.operator for specifier in requirement.specifier] == ["=="], requirement
        assert hashes, requirement
        assert requirement.url is None
    text = (CI / name).read_text(encoding="utf-8")
    assert "://" not in text and "find-links" not in text, (
        "made on a machine with an index of its own"
    )


def test_required_tools_are_locked() -> None:
    versions = {canonicalize_name(one.name): one.specifier for one, _ in locked("tools.lock")}
    for line in (CI / "tools.in").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            required = Requirement(line)
            (pinned,) = versions[canonicalize_name(required.name)]
            assert pinned.version in required.specifier, "`make lock`"


def script(name: str) -> ModuleType:
    """Load a script of `.ci`, which is not part of a package."""
    spec = importlib.util.spec_from_file_location(name, CI / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("license", "allowed"),
    [
        ("MIT", True),
        ("Mozilla Public License 2.0 (MPL 2.0)", True),
        ("DFSG approved; MIT License", True),
        ("MIT License; GNU General Public License (GPL)", False),
        ("Apache-2.0 AND CNRI-Python", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT OR GPL-3.0-only", True),
        ("(MIT OR Apache-2.0) AND BSD-3-Clause", True),
        ("(MIT OR GPL-3.0-only) AND AGPL-3.0-only", False),
        ("GPL-2.0-only OR AGPL-3.0-only", False),
        ("UNKNOWN", False),
        ("DFSG approved", False),
        ("", False),
    ],
)
def test_licenses(license: str, allowed: bool) -> None:
    assert script("judge").is_allowed(license) is allowed


GOOD = {"Name": "a", "Version": "1", "License": "MIT"}
CLEAN = {"name": "a", "version": "1", "vulns": []}
KNOWN = {**CLEAN, "name": "b", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}
UNANSWERED = {"name": "c", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "log", "licenses", "code", "words"),
    [
        ([CLEAN], "", [GOOD], 0, "1 of 1 packages checked, 0 known"),
        ([CLEAN, KNOWN], "", [GOOD], 1, "b 1: PYSEC-1, fixed in 2"),
        ([CLEAN, UNANSWERED], "", [GOOD], 0, "not checked: c"),
        ([UNANSWERED], "", [GOOD], 0, "SKIPPED: the advisory database could not be reached"),
        (None, "requests.exceptions.ConnectionError: x", [GOOD], 0, "SKIPPED: the advisory"),
        (None, "ERROR:pip_audit._cli:invalid requirements input", [GOOD], 1, "pip-audit failed"),
        (None, "", [GOOD], 1, "pip-audit failed"),
        ([CLEAN], "", [{**GOOD, "License": "AGPL-3.0-only"}], 1, "license of a 1: AGPL-3.0-only"),
    ],
)
def test_problems_and_unchecked_packages_are_reported(
    packages: list[dict[str, Any]] | None,
    log: str,
    licenses: list[dict[str, Any]],
    code: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit, errors, license_list = (tmp_path / name for name in ("a.json", "a.log", "l.json"))
    if packages is not None:
        audit.write_text(json.dumps({"dependencies": packages}))
    errors.write_text(log)
    license_list.write_text(json.dumps(licenses))
    assert script("judge").judge(audit, errors, license_list) == code
    assert words in capsys.readouterr().out


def test_equal_contents_give_equal_archives(tmp_path: Path) -> None:
    """Two builders with other times, modes and orders of files."""
    for builder, (mode, second) in {"a": (0o600, 1), "b": (0o664, 2)}.items():
        source = tmp_path / builder / "flowdiag-1"
        source.mkdir(parents=True)
        names = ["run.sh", "x.py"] if builder == "a" else ["x.py", "run.sh"]
        with (
            tarfile.open(tmp_path / f"{builder}.tar.gz", "w:gz") as sdist,
            zipfile.ZipFile(tmp_path / f"{builder}.whl", "w") as wheel,
        ):
            for name in names:
                (source / name).write_text(name)
                (source / name).chmod(mode | 0o100 if name == "run.sh" else mode)
                os.utime(source / name, (second, 1_700_000_000 + second * 60))
                sdist.add(source / name, f"flowdiag-1/{name}")
                wheel.write(source / name, f"flowdiag/{name}")
            wheel.write(source / "x.py", "flowdiag-1.dist-info/RECORD")
        for suffix in (".tar.gz", ".whl"):
            script("repack").repack(tmp_path / f"{builder}{suffix}", 1_750_000_000)
    for suffix in (".tar.gz", ".whl"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as sdist:
        modes = {member.name: oct(member.mode) for member in sdist.getmembers()}
    assert modes == {"flowdiag-1/run.sh": "0o755", "flowdiag-1/x.py": "0o644"}
    with zipfile.ZipFile(tmp_path / "a.whl") as wheel:
        assert wheel.namelist()[-1] == "flowdiag-1.dist-info/RECORD"
        assert wheel.read("flowdiag/run.sh") == b"run.sh"


def test_every_supported_python_is_a_classifier_and_is_resolved() -> None:
    pythons = script("platforms").PYTHONS
    listed = [
        name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: Python :: 3." in name
    ]
    assert tuple(listed) == pythons
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    parts = [extra for extras in script("platforms").SETS.values() for extra in extras]
    assert set(parts) == set(PROJECT["optional-dependencies"]) - {"dev", "fuzz"}


def test_the_changelog_describes_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{PROJECT['version']}] - " in text


def test_only_the_last_jobs_of_a_release_have_permissions() -> None:
    workflow = YAML(typ="safe").load(ROOT / ".github" / "workflows" / "release.yml")
    assert workflow["permissions"] == {}
    jobs = {name: job["permissions"] for name, job in workflow["jobs"].items()}
    assert jobs["test"] == jobs["build"] == {"contents": "read"}
    assert jobs["publish"] == {"id-token": "write"}
    order = ["test", "build", "attest", "publish", "release"]
    assert list(jobs) == order
    assert [workflow["jobs"][name].get("needs") for name in order] == [None, *order[:-1]]
    used = re.findall(r"uses: (\S+)", (ROOT / ".github/workflows/release.yml").read_text())
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)
