"""Loads the data files: messages, layouts, metrics, failures, components. Each has samples or cites its source."""

from __future__ import annotations

import pkgutil
import re
import tomllib
from typing import Any, Final

from flowdiag.parsers.errors import FlowdiagError

# From the header of a sample to the next header.
_SAMPLE: Final = re.compile(r"^\[\[message\.sample\]\]\n.*?(?=^\[|\Z)", re.MULTILINE | re.DOTALL)


def read_format(name: str, *, samples: bool = True) -> dict[str, Any]:
    """Read a data file of this folder, which may be in a zip file on an executor.

    Args:
        name: path inside `flowdiag.parsers`, such as formats/metrics.toml.
        samples: whether to keep the samples, which only tests and documentation need. Without them, the
            file loads in half the time.

    Raises:
        FlowdiagError: the installation lacks the file.
    """
    data = pkgutil.get_data("flowdiag.parsers", name)
    if data is None:
        raise FlowdiagError(
            f"the data file {name} is missing from the installation", hint="reinstall flowdiag"
        )
    text = data.decode()
    return tomllib.loads(text if samples else _SAMPLE.sub("", text))
