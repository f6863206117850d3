"""How the rules and the picture of `flowdiag startup` name steps."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.startup.facts import Start, Step

STEP_WORDS: Final = {
    "client": "the client's part, main() of the job in it,",
    "operator": "the deployment by the Kubernetes Operator",
    "cluster-allocation": "the allocation of the cluster",
    "rpc": "the start of the JobManager's RPC",
    "rest": "the start of the REST endpoint",
    "leadership": "the election of a leader",
    "submission": "the submission",
    "resource-manager": "the registration at the ResourceManager",
    "back-off": "the wait before a restart",
    "registration": "the registration of a TaskManager",
    "slots": "the wait for slots",
    "workers": "the start of workers",
    "restore": "reading state back",
    "deployment": "the deployment of the tasks",
    "initialisation": "the initialisation of the tasks",
    "first-checkpoint": "the first checkpoint",
}


CAUSES_BY_FAILURE: Final = {
    "user-code": "task-failure",
    "unknown": "task-failure",
    "snapshot": "snapshot-exception",
    "no-resource": "not-enough-slots",
    "network-buffers": "insufficient-network-buffers",
    "taskmanager-lost": "taskmanager-lost",
    "out-of-memory": "out-of-memory",
    "task-stuck": "task-hangs",
}
"""The word of `summary.cause` for a kind of failure (`crises.kind_of`)."""


def step_of(start: Start, name: str | None) -> Step | None:
    """The step of that name."""
    return next((step for step in start.steps if step.name == name), None)
