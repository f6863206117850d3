"""Install commands for optional dependencies."""

from __future__ import annotations

import json


def pip_install(extra: str) -> str:
    """Return the command that adds an extra of `pyproject.toml` to this installation of flowdiag."""
    from importlib import metadata  # imported only if an extra is missing

    try:
        origin = metadata.distribution("flowdiag").read_text("direct_url.json")
    except (metadata.PackageNotFoundError, OSError):
        origin = None
    return _command(extra, origin)


def _command(extra: str, origin: str | None) -> str:
    """Return the command for the origin of this installation: a package index (None), or the JSON of PEP 610.

    >>> _command("s3", None)
    "pip install 'flowdiag[s3]'"
    >>> _command("s3", '{"url": "file:///home/me/flowdiag", "dir_info": {"editable": true}}')
    "pip install -e '.[s3]' in the clone of flowdiag"
    >>> _command("s3", '{"url": "https://github.com/x/flowdiag", "vcs_info": {"vcs": "git"}}')
    "pip install 'flowdiag[s3] @ git+https://github.com/x/flowdiag'"
    >>> _command("s3", '{"url": "file:///tmp/flowdiag-0.1.0-py3-none-any.whl", "archive_info": {}}')
    "pip install 'flowdiag[s3] @ file:///tmp/flowdiag-0.1.0-py3-none-any.whl'"
    """
    try:
        known = json.loads(origin or "{}")
        url = known.get("url", "")
    except (ValueError, AttributeError):
        known, url = {}, ""
    if "dir_info" in known:
        editable = "-e " if known["dir_info"].get("editable") else ""
        return f"pip install {editable}'.[{extra}]' in the clone of flowdiag"
    if vcs := known.get("vcs_info", {}).get("vcs"):
        return f"pip install 'flowdiag[{extra}] @ {vcs}+{url}'"
    return f"pip install 'flowdiag[{extra}] @ {url}'" if url else f"pip install 'flowdiag[{extra}]'"
