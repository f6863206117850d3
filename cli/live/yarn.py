"""Options for reading from YARN, shared by `collect yarn` and `diagnose yarn://…`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.options.signature import Options

if TYPE_CHECKING:
    from pathlib import Path

    from flowdiag.parsers.live.client import Access
    from flowdiag.parsers.live.watching import Outcome, ShowProgress
    from flowdiag.parsers.live.yarn.collector import YarnOptions

_PANEL: Final = "YARN"

ResourceManager = Annotated[
    str | None,
    typer.Option(
        "--resourcemanager",
        metavar="URL",
        help="Address of the ResourceManager or of a gateway (default: from yarn-site.xml).",
        rich_help_panel=_PANEL,
    ),
]
Timeline = Annotated[
    str | None,
    typer.Option(
        "--timeline",
        metavar="URL",
        help="Address of the timeline server (default: port 8188 of the ResourceManager).",
        rich_help_panel=_PANEL,
    ),
]
History = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="URL",
        help="Address of the JobHistory server, for logs of finished containers.",
        rich_help_panel=_PANEL,
    ),
]

YARN_OPTIONS: Final[Options] = {
    "resourcemanager": (ResourceManager, None),
    "timeline": (Timeline, None),
    "history": (History, None),
}


def yarn_options(application: str, arguments: Mapping[str, Any], access: Access) -> YarnOptions:
    """Build the options of a collection from the command line and Hadoop's configuration.

    Raises:
        FlowdiagError: a size or an address is invalid, or no address is known.
    """
    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.live.client import base_of
    from flowdiag.parsers.live.yarn.collector import YarnOptions
    from flowdiag.parsers.units import size_bytes

    log_bytes = size_bytes(arguments["log_size"], whole=True)
    if not log_bytes:
        raise FlowdiagError(
            f"'{arguments['log_size']}' is not a valid size for --log-size", hint="write 32m or 1g"
        )
    manager = arguments["resourcemanager"] or manager_address(os.environ)
    if manager is None:
        raise FlowdiagError(
            "the address of the ResourceManager is unknown",
            hint="pass --resourcemanager http://HOST:8088, or set HADOOP_CONF_DIR to the folder of yarn-site.xml",
        )
    urls = (manager, arguments["timeline"], arguments["history"])
    bases = [None if url is None else base_of(url)[0] for url in urls]
    return YarnOptions(
        application=application,
        manager=bases[0] or manager,
        timeline=bases[1],
        history=bases[2],
        access=access,
        log_bytes=int(log_bytes),
        rest=not arguments["no_rest"],
    )


def manager_address(environ: Mapping[str, str]) -> str | None:
    """Return the address of the first ResourceManager in yarn-site.xml."""
    from pathlib import Path
    from xml.etree import ElementTree

    folders = [
        environ.get("YARN_CONF_DIR") or environ.get("HADOOP_CONF_DIR"),
        "/etc/hadoop/conf",
    ]
    for folder in filter(None, folders):
        try:
            root = ElementTree.parse(Path(folder) / "yarn-site.xml").getroot()
        except (OSError, ElementTree.ParseError):
            continue
        values = {
            str(each.findtext("name")): str(each.findtext("value"))
            for each in root.iter("property")
        }
        return _manager_of(values)
    return None


def _manager_of(values: Mapping[str, str]) -> str | None:
    """Return the address of the ResourceManager's Web UI.

    >>> _manager_of({"yarn.resourcemanager.hostname": "rm-1"})
    'http://rm-1:8088'
    >>> _manager_of({"yarn.resourcemanager.ha.rm-ids": "a,b", "yarn.http.policy": "HTTPS_ONLY",
    ...     "yarn.resourcemanager.hostname.a": "rm-1"})
    'https://rm-1:8090'
    """
    secure = values.get("yarn.http.policy") == "HTTPS_ONLY"
    first = values.get("yarn.resourcemanager.ha.rm-ids", "").partition(",")[0].strip()
    name = (
        "yarn.resourcemanager.webapp.https.address"
        if secure
        else "yarn.resourcemanager.webapp.address"
    )
    for suffix in (f".{first}", "") if first else ("",):
        address = values.get(name + suffix)
        if address is None and (host := values.get(f"yarn.resourcemanager.hostname{suffix}")):
            address = f"{host}:{8090 if secure else 8088}"
        if address is not None:
            return f"{'https' if secure else 'http'}://{address}"
    return None


async def collect_application(
    url: str, path: Path, access: Access, tool: str, progress: ShowProgress
) -> Outcome:
    """Collect the application at an address: `yarn://APPLICATION_ID?resourcemanager=URL`.

    Raises:
        FlowdiagError: the address is invalid, or nothing can be collected.
    """
    from urllib.parse import parse_qsl, urlsplit

    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.live.yarn.collector import collect_yarn

    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := set(query) - set(YARN_OPTIONS):
        raise FlowdiagError(
            f"'{url}': unknown option '{min(unknown)}'",
            hint="use resourcemanager, timeline or history",
        )
    arguments = dict.fromkeys(YARN_OPTIONS) | {"log_size": "32m", "no_rest": False} | query
    options = yarn_options(parts.netloc, arguments, access)
    return await collect_yarn(path, options, tool=tool, progress=progress)
