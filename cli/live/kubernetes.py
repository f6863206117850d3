"""Options for reading from Kubernetes, shared by `collect k8s` and `diagnose k8s://…`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flowdiag.cli.live.access import seconds
from flowdiag.cli.options.signature import Options

if TYPE_CHECKING:
    from pathlib import Path

    from flowdiag.parsers.live.k8s.collector import KubernetesOptions
    from flowdiag.parsers.live.watching import Outcome, ShowProgress

_PANEL: Final = "Kubernetes"
_SNAPSHOT: Final = "Snapshot"

Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NS",
        help="Namespace (default: the namespace of the context).",
        rich_help_panel=_PANEL,
    ),
]
Selector = Annotated[
    str | None,
    typer.Option(
        "--selector",
        "-l",
        metavar="LABELS",
        help="Select pods by label: app=orders.",
        rich_help_panel=_PANEL,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context", metavar="NAME", help="kubeconfig context to use.", rich_help_panel=_PANEL
    ),
]
Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig (default: KUBECONFIG, ~/.kube/config, or the pod's service account).",
        rich_help_panel=_PANEL,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only log lines newer than this: 6h.",
        rich_help_panel=_PANEL,
    ),
]
LogSize = Annotated[
    str,
    typer.Option(
        "--log-size",
        metavar="SIZE",
        help="Maximum size of each log (default: 32m). Only the end of a larger log is kept.",
        rich_help_panel=_SNAPSHOT,
    ),
]
MaxPods = Annotated[
    int,
    typer.Option(
        "--max-pods",
        metavar="N",
        min=1,
        help="Read the logs of at most N pods, unhealthy pods first (default: 100).",
        rich_help_panel=_PANEL,
    ),
]
NoRest = Annotated[
    bool,
    typer.Option(
        "--no-rest",
        help="Do not read the REST API of the JobManager or driver.",
        rich_help_panel=_SNAPSHOT,
    ),
]

KUBERNETES_OPTIONS: Final[Options] = {
    "namespace": (Namespace, None),
    "selector": (Selector, None),
    "context": (Context, None),
    "kubeconfig": (Kubeconfig, None),
    "since": (Since, None),
    "log_size": (LogSize, "32m"),
    "max_pods": (MaxPods, 100),
    "no_rest": (NoRest, False),
}


def kubernetes_options(handle: str | None, arguments: Mapping[str, Any]) -> KubernetesOptions:
    """Build the options of a collection from the command line.

    Raises:
        FlowdiagError: a size or a duration is invalid.
    """
    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.live.k8s.collector import KubernetesOptions
    from flowdiag.parsers.units import size_bytes

    log_bytes = size_bytes(arguments["log_size"], whole=True)
    if not log_bytes:
        raise FlowdiagError(
            f"'{arguments['log_size']}' is not a valid size for --log-size", hint="write 32m or 1g"
        )
    return KubernetesOptions(
        handle=handle,
        namespace=arguments["namespace"],
        selector=arguments["selector"],
        context=arguments["context"],
        kubeconfig=arguments["kubeconfig"],
        since_s=None
        if arguments["since"] is None
        else seconds(arguments["since"], "--since", least_s=1),
        log_bytes=int(log_bytes),
        max_pods=arguments["max_pods"],
        timeout_s=max(0.1, seconds(arguments["timeout"], "--timeout")),
        rest=not arguments["no_rest"],
    )


def workload_options(url: str) -> KubernetesOptions:
    """Parse `k8s://NAMESPACE/HANDLE?context=…&since=…`.

    >>> found = workload_options("k8s://prod/orders?context=eu")
    >>> found.namespace, found.handle, found.context
    ('prod', 'orders', 'eu')
    >>> workload_options("k8s:///deployment/orders").handle
    'deployment/orders'

    Raises:
        FlowdiagError: the address is invalid.
    """
    from urllib.parse import parse_qsl, urlsplit

    from flowdiag.parsers.errors import FlowdiagError
    from flowdiag.parsers.live.k8s.collector import KubernetesOptions

    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := set(query) - {"context", "since", "selector"}:
        raise FlowdiagError(
            f"'{url}': unknown option '{min(unknown)}'",
            hint="use context, since or selector; for more, use flowdiag collect k8s",
        )
    since = query.get("since")
    handle = parts.path.strip("/") or None
    if handle is not None and "selector" in query:
        raise FlowdiagError(
            f"'{url}': a name and a selector cannot be combined", hint="remove one of them"
        )
    return KubernetesOptions(
        handle=handle,
        namespace=parts.netloc or None,
        selector=query.get("selector"),
        context=query.get("context"),
        since_s=None if since is None else seconds(since, "since", least_s=1),
    )


async def collect_workload(url: str, path: Path, tool: str, progress: ShowProgress) -> Outcome:
    """Collect the workload at an address; a cancellation ends its threads."""
    import asyncio
    import threading

    from flowdiag.parsers.live.k8s.collector import collect_kubernetes

    options, stop = workload_options(url), threading.Event()
    try:
        return await asyncio.to_thread(
            collect_kubernetes, path, options, tool=tool, progress=progress, stop=stop
        )
    except asyncio.CancelledError:
        stop.set()
        raise
