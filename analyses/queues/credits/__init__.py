"""A model of credit-based flow control in one job's network: its queues, barriers and throughput.

The simulation moves parcels (several records) through the job's subtasks as Flink 1.5 to 2.3 does:

- A producer's `LocalBufferPool` lends its subpartitions at most `S * E + F` buffers, and each of them at most
  `max-buffers-per-channel`. A task takes its next record only while all its pools have a buffer left. Otherwise it is
  back-pressured. One record may overdraw the pool (1.16+).
- A remote channel has `E` exclusive buffers and borrows floating buffers of its gate for the sender's
  backlog. It announces its free buffers as credit. Without credit a sender keeps its buffers.
- A local channel has no buffers of its own: its consumer reads the producer's buffers.
- Buffers are sent when they are full, or when the flusher passes (`execution.buffer-timeout`).
- An aligned barrier waits in the queues like data, but needs no buffer and no credit. Its channel then waits for the
  other channels. An unaligned barrier overtakes the queued data, and the first one to arrive is forwarded at once.
- Debloating shrinks new buffers to the data that the consumer processes in the target time
  (`BufferDebloater`, `BufferSizeEMA`, 1.14+).
- If a TaskManager has too few segments, its pools share them (`NetworkBufferPool.redistributeBuffers`).

Not in the model: network latency, CPU shared between subtasks, priorities of operators in a task, and
bursts of the input. The same input gives the same outcome.
"""

from __future__ import annotations

from flowdiag.analyses.queues.credits.job import Flow, Job, ModelError, Outcome
from flowdiag.analyses.queues.credits.simulation import Simulation
from flowdiag.analyses.queues.credits.static import (
    enough_seconds,
    sustainable_share,
    topological_order,
)


def simulate(
    job: Job,
    flow: Flow,
    *,
    seconds: float | None = None,
    seed: int = 1,
    fill: bool | None = None,
) -> Outcome:
    """Run the simulation of a job.

    Args:
        job: tasks and edges.
        flow: the settings.
        seconds: simulated time; `enough_seconds` by default. Rates and queues are measured in the last three fifths,
            and the first checkpoint is triggered at the start of this period.
        seed: seed for drawing the consumer of each record.
        fill: whether to start with full buffers, as after hours. By default, True if a subtask cannot keep up with
            the sources.

    Raises:
        ModelError: the job or the settings are invalid or too large.
    """
    topological_order(job)
    if seconds is None:
        seconds = enough_seconds(job, flow)
    if not 0 < seconds <= 86_400:
        raise ModelError("a simulation covers at most one day")
    filled = sustainable_share(job) < 1.0 if fill is None else fill
    simulation = Simulation(job, flow, seconds=seconds, seed=seed, fill=filled)
    simulation.run()
    return simulation.outcome()
