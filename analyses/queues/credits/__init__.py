"""What credit-based flow control does to queues, barriers and throughput: a model of one job's network.

Events at the size of a parcel (some records) are played through the job's subtasks, as Flink 1.5 to 2.3
move them (catalogue/flink.md 7):

- A producer's `LocalBufferPool` lends buffers to its subpartitions (`S * E + F` at most, at most
  `max-buffers-per-channel` each). A task takes its next record only while all its pools have a buffer
  left, and is back-pressured otherwise; one record may overdraw the pool (1.16+).
- A remote channel has `E` exclusive buffers and borrows of its gate's floating ones what the sender's
  backlog asks for; what it can take is announced as credit. Without credit a sender keeps its buffers.
- A local channel has no buffers of its own: its consumer reads those of the producer.
- Buffers are sent when they are full, or when the flusher passes (`execution.buffer-timeout`).
- An aligned barrier waits in the queues like data, and its channel then waits for the others; it needs no
  buffer and no credit. An unaligned one overtakes what waits, and leaves with the first that arrives.
- Debloating shrinks new buffers to what the consumer gets through in the target time
  (`BufferDebloater`, `BufferSizeEMA`, 1.14+).
- Too few segments on a TaskManager are shared out over its pools (`NetworkBufferPool.redistributeBuffers`).

Not in the model: the time that the network takes, processor time shared between subtasks, priorities of
operators inside a task, and bursts of the input. The same input gives the same outcome.
"""

from __future__ import annotations

from flowdiag.analyses.queues.credits.job import Flow, Job, ModelError, Outcome
from flowdiag.analyses.queues.credits.simulation import Simulation
from flowdiag.analyses.queues.credits.static import enough_seconds, limit, ordered


def simulate(
    job: Job,
    flow: Flow,
    *,
    seconds: float | None = None,
    seed: int = 1,
    fill: bool | None = None,
) -> Outcome:
    """Play a job for some time under some settings.

    Args:
        job: what there is to do.
        flow: the settings.
        seconds: of the job's life; rates and queues are those of the last three fifths, and the first
            checkpoint is triggered when these begin. Default: `enough_seconds`.
        seed: of the draw that says which record goes where.
        fill: begin with buffers that are full, as they are after hours; default: where some subtask
            cannot keep up with the sources.

    Raises:
        ModelError: the job or the settings make no sense, or are too large.
    """
    ordered(job)
    if seconds is None:
        seconds = enough_seconds(job, flow)
    if not 0 < seconds <= 86_400:
        raise ModelError("a simulation takes up to a day")
    wanted = limit(job) < 1.0 if fill is None else fill
    simulation = Simulation(job, flow, seconds=seconds, seed=seed, fill=wanted)
    simulation.run()
    return simulation.outcome()
