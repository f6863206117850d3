"""Runs the model as a series of events in time order. The smallest unit that moves is a parcel."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from typing import Final

from flowdiag.analyses.queues.credits.building import build, parcel
from flowdiag.analyses.queues.credits.job import Barrier, Flow, Job, Outcome, SubtaskOutcome, Totals
from flowdiag.analyses.queues.credits.parts import (
    Buffer,
    Gate,
    Link,
    Partition,
    Subtask,
    buffers_in_use,
    parcels_of,
)
from flowdiag.analyses.queues.credits.static import flow_rates, is_source, sustainable_share

SAMPLES: Final = 320  # samples of the queues per run; fewer if there are many channels
_FEWEST_SAMPLES: Final = 40
_LOOKS: Final = 200_000  # readings of channels in all samples of a run
GOLDEN: Final = 0.6180339887498949
_FILLING: Final = 20.0  # rate of the sources while they fill the buffers in advance, as a multiple of the capacity


class Simulation:
    """One run of the simulation. All times are in milliseconds."""

    def __init__(self, job: Job, flow: Flow, *, seconds: float, seed: int, fill: bool) -> None:
        """Set up a run; takes the same arguments as `simulate`."""
        self.flow = flow
        self.job = job
        self.now = 0.0
        self.end = seconds * 1000.0
        self.random = random.Random(seed)
        # In runs of hours the flusher may run less often, because only the order of magnitude matters.
        self.flush_ms = max(flow.flush_ms, self.end / 6000.0) if flow.flush_ms > 0 else 0.0
        self.heap: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.subtasks = build(job, flow)
        self.partitions = [p for s in self.subtasks for p in s.partitions]
        self.links = [link for p in self.partitions for link in p.links]
        looks = _LOOKS // max(1, len(self.links))
        self.sample_ms = self.end / max(_FEWEST_SAMPLES, min(SAMPLES, looks))
        self.parcel = parcel(job, flow, self.end)
        self.made = self.consumed = self.sent = self.taken = 0
        self.least_credit = 0
        self.triggered: list[float] = []
        self.passed: list[dict[tuple[str, int], float]] = []
        self.waited: list[dict[tuple[str, int], float]] = []
        self.overtaken: list[float] = []
        self.priority: set[int] = set()
        self.counting_from = 0.0
        self.boost = 1.0
        self.filling = fill
        if fill:
            rate = flow_rates(job)
            bound = sustainable_share(job)
            least = min(rate[t.name] for t in job.tasks if is_source(job, t))
            self.boost = max(1.0, _FILLING * bound / max(least, 1e-12))
        for subtask in self.subtasks:
            self._wake(subtask)
        if self.flush_ms > 0:
            for number, partition in enumerate(self.partitions):
                offset = self.flush_ms * ((number * GOLDEN) % 1.0)
                self._schedule(offset, partial(self._flush, partition))
        if flow.debloating is not None:
            for number, subtask in enumerate(self.subtasks):
                if subtask.gate is not None:
                    offset = flow.debloating.period_ms * ((number * GOLDEN) % 1.0)
                    self._schedule(offset, partial(self._debloat, subtask))
        self._schedule(self.sample_ms, self._sample)

    # Time.

    def _schedule(self, time: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (time, next(self.order), what))

    def _wake(self, subtask: Subtask) -> None:
        if not subtask.scheduled:
            subtask.scheduled = True
            self._schedule(self.now, partial(self._step, subtask))

    def run(self) -> None:
        """Simulate until the end."""
        warm = self.end * 0.4
        fill_until = self.end * 0.25
        counting = False
        while self.heap and self.heap[0][0] <= self.end:
            time, _, what = heapq.heappop(self.heap)
            self.now = time
            if self.filling and (
                time >= fill_until or all(s.state == "blocked" for s in self.subtasks if s.source)
            ):
                self.filling = False
                self.boost = 1.0
            if not counting and time >= warm:
                counting = True
                self._begin_counting()
            what()
        self.now = self.end
        for subtask in self.subtasks:
            self._enter(subtask, subtask.state)

    def _begin_counting(self) -> None:
        self.counting_from = self.now
        for subtask in self.subtasks:
            self._enter(subtask, subtask.state)
            subtask.times.clear()
            subtask.counted = subtask.records
        if self.flow.interval_ms > 0:
            self._trigger()

    def _enter(self, subtask: Subtask, state: str) -> None:
        spent = self.now - subtask.since
        if spent > 0:
            subtask.times[subtask.state] = subtask.times.get(subtask.state, 0.0) + spent
        subtask.state, subtask.since = state, self.now

    # A subtask.

    def _step(self, subtask: Subtask) -> None:
        subtask.scheduled = False
        if self.now < subtask.snapshot_until:
            return
        while True:
            if subtask.done_at >= 0:
                if self.now < subtask.done_at:
                    return
                self._finish(subtask)
            if subtask.pending and not self._emit(subtask):
                self._enter(subtask, "blocked")
                return
            if subtask.requested_checkpoint >= 0 and not self._start_checkpoint(subtask):
                return
            if not self._may_continue(subtask):
                self._enter(subtask, "blocked")
                return
            if subtask.left > 0 or subtask.source:
                self._begin(subtask)
                return
            if subtask.current is not None:
                self._recycle(subtask)
            if not self._take_buffer(subtask):
                self._enter(subtask, "idle")
                return
            if self.now < subtask.snapshot_until:
                return

    def _may_continue(self, subtask: Subtask) -> bool:
        if subtask.source and subtask.task.legacy_source:
            return True  # a legacy source requests a buffer only when it needs one
        return all(partition.available() for partition in subtask.partitions)

    def _begin(self, subtask: Subtask) -> None:
        each = subtask.service * self.parcel
        if subtask.source:
            each /= self.boost
        self._enter(subtask, "busy")
        subtask.done_at = self.now + each
        subtask.scheduled = True
        self._schedule(subtask.done_at, partial(self._step, subtask))

    def _finish(self, subtask: Subtask) -> None:
        subtask.done_at = -1.0
        subtask.records += 1
        if not subtask.source:
            subtask.left -= 1
            self.taken += 1
        for number, partition in enumerate(subtask.partitions):
            partition.owed += partition.selectivity
            while partition.owed >= 1.0 - 1e-9:
                partition.owed -= 1.0
                size = subtask.task.record_bytes * self.parcel
                if partition.broadcast:
                    for place in range(len(partition.links)):
                        subtask.pending.append([number, place, size])
                else:
                    subtask.pending.append([number, self._choice(partition), size])

    def _choice(self, partition: Partition) -> int:
        """Draw the link of a parcel at random, weighted by the links' shares. The variance is that of single records."""
        if len(partition.links) == 1:
            return 0
        partition.turn = (partition.turn + GOLDEN) % 1.0
        at = partition.turn
        if not partition.spread and (self.parcel == 1 or self.random.random() * self.parcel < 1.0):
            at = self.random.random()
        return min(bisect_right(partition.cumulative, at), len(partition.links) - 1)

    def _emit(self, subtask: Subtask) -> bool:
        while subtask.pending:
            entry = subtask.pending[0]
            partition = subtask.partitions[int(entry[0])]
            link = partition.links[int(entry[1])]
            while True:
                if link.open is None:
                    if not partition.gets_buffer():
                        return False
                    self._open(link, entry[2])
                buffer = link.open
                assert buffer is not None
                put = min(link.room, entry[2])
                link.room -= put
                entry[2] -= put
                buffer.filled += put
                buffer.bytes += put
                if entry[2] <= 1e-6:
                    buffer.parcels += 1
                    self.sent += 1
                if link.room <= 1e-6:
                    self._complete_buffer(link)
                else:
                    partition.dirty.add(int(entry[1]))
                if entry[2] <= 1e-6:
                    break
            if self.flow.flush_ms == 0 and link.open is not None and link.open.bytes > 0:
                link.flush = True
                self._offer_data(link)
            subtask.pending.popleft()
        return True

    def _open(self, link: Link, at_least: float) -> None:
        partition = link.partition
        link.open = Buffer()
        segment = float(self.flow.segment_bytes)
        link.room = min(segment, max(link.size, min(at_least, segment)))
        link.used += 1
        partition.used += 1
        partition.fullest = max(partition.fullest, partition.used - partition.size)
        if partition.most is not None and link.used == partition.most:
            partition.full_links += 1

    def _complete_buffer(self, link: Link) -> None:
        """Close the open buffer and queue it. A buffer that has already been read returns to its pool."""
        buffer = link.open
        assert buffer is not None
        link.open, link.flush = None, False
        buffer.owner = True
        if buffer.bytes <= 1e-6 and buffer.parcels == 0:
            self._release(link)
            return
        self.made += 1
        link.queue.append(buffer)
        link.backlog += 1
        self._offer_data(link)

    def _release(self, link: Link) -> None:
        """Return a segment to the producer's pool."""
        partition = link.partition
        if partition.most is not None and link.used == partition.most:
            partition.full_links -= 1
        link.used -= 1
        partition.used -= 1
        owner = partition.owner
        if owner.state == "blocked":
            self._wake(owner)

    # From the subpartition to the channel.

    def _slice(self, link: Link) -> Buffer | None:
        """Return the current content of the open buffer, if the flusher wants to send it."""
        buffer = link.open
        if not link.flush or buffer is None or buffer.bytes <= 1e-6:
            return None
        link.flush = False
        part = Buffer(parcels=buffer.parcels, bytes=buffer.bytes)
        buffer.parcels, buffer.bytes = 0, 0.0
        self.made += 1
        return part

    def _offer_data(self, link: Link) -> None:
        """Send the next data of a link, or let its consumer read them, if there are any."""
        if link.local:
            self._queue_channel(link)
            return
        consumer = link.consumer
        gate = consumer.gate
        assert gate is not None
        arrived = False
        while True:
            if link.queue and link.queue[0].barrier >= 0:
                link.received.append(link.queue.popleft())
                arrived = True
                continue
            if not link.has_output:
                break
            if link.exclusive_free + link.floating_free == 0:
                # Only a sender that starts without credit announces its backlog.
                if self.flow.per_channel == 0:
                    self._report_backlog(link, gate)
                if link.exclusive_free + link.floating_free == 0:
                    break
            if link.queue:
                buffer = link.queue.popleft()
                link.backlog -= 1
                self._release(link)
                buffer.owner = False
            else:
                part = self._slice(link)
                if part is None:
                    link.flush = False
                    break
                buffer = part
            if link.floating_free > 0:
                link.floating_free -= 1
                buffer.floating = True
            else:
                link.exclusive_free -= 1
            self.least_credit = min(self.least_credit, link.exclusive_free, link.floating_free)
            link.received.append(buffer)
            arrived = True
            self._report_backlog(link, gate)
        if arrived:
            self._queue_channel(link)

    def _report_backlog(self, link: Link, gate: Gate) -> None:
        """Update the channel's backlog and borrow floating buffers (`onSenderBacklog`)."""
        backlog = link.backlog + (1 if link.flush and link.open is not None else 0)
        if backlog == 0 and link.required == self.flow.per_channel:
            return
        link.required = backlog + self.flow.per_channel
        while link.exclusive_free + link.floating_free < link.required:
            if gate.floating_free > 0:
                gate.floating_free -= 1
                link.floating_free += 1
            else:
                if not link.waiting:
                    link.waiting = True
                    gate.waiters.append(link)
                break

    def _queue_channel(self, link: Link) -> None:
        """Queue a channel that has data. The consumer reads its queued channels round robin."""
        if link.listed or link.blocked:
            return
        link.listed = True
        consumer = link.consumer
        consumer.ready.append(link)
        if consumer.state == "idle":
            self._wake(consumer)

    def _take_buffer(self, subtask: Subtask) -> bool:
        """Take the next buffer, round robin over the channels, and handle barriers. Return False if there is none."""
        while subtask.ready:
            link = subtask.ready.popleft()
            link.listed = False
            buffer = self._next(link)
            if buffer is None:
                continue
            if buffer.barrier >= 0:
                self._handle_barrier(subtask, link, buffer.barrier)
                if self.now < subtask.snapshot_until:
                    return True
                if not all(partition.available() for partition in subtask.partitions):
                    return True  # the next iteration handles it
                continue
            if self._has_more(link):
                link.listed = True
                subtask.ready.append(link)
            subtask.current, subtask.left = (link, buffer), buffer.parcels
            if subtask.gate is not None:
                subtask.gate.bytes += buffer.bytes
            return True
        return False

    def _next(self, link: Link) -> Buffer | None:
        if link.blocked:
            return None
        if not link.local:
            return link.received.popleft() if link.received else None
        if link.queue:
            buffer = link.queue.popleft()
            if buffer.barrier < 0:
                link.backlog -= 1
            return buffer
        return self._slice(link)

    @staticmethod
    def _has_more(link: Link) -> bool:
        if link.local:
            return link.has_output
        return bool(link.received)

    def _recycle(self, subtask: Subtask) -> None:
        assert subtask.current is not None
        link, buffer = subtask.current
        subtask.current = None
        self.consumed += 1
        if link.local:
            if buffer.owner:
                self._release(link)
            return
        self._free_buffer(link, buffer)

    def _free_buffer(self, link: Link, buffer: Buffer) -> None:
        """Free a received buffer. The credit goes to its channel, or to the channel that has waited longest."""
        gate = link.consumer.gate
        assert gate is not None
        if buffer.floating:
            self._free_floating(gate)
        else:
            link.exclusive_free += 1
            if link.exclusive_free + link.floating_free > link.required and link.floating_free > 0:
                link.floating_free -= 1
                self._free_floating(gate)
        self._offer_data(link)

    def _free_floating(self, gate: Gate) -> None:
        while gate.waiters:
            other = gate.waiters.popleft()
            other.waiting = False
            if other.exclusive_free + other.floating_free >= other.required:
                continue
            other.floating_free += 1
            if other.exclusive_free + other.floating_free < other.required:
                other.waiting = True
                gate.waiters.append(other)
            self._offer_data(other)
            return
        gate.floating_free += 1

    # Clocks.

    def _flush(self, partition: Partition) -> None:
        for place in sorted(partition.dirty):
            link = partition.links[place]
            if link.open is not None and link.open.bytes > 1e-6:
                link.flush = True
                self._offer_data(link)
        partition.dirty.clear()
        self._schedule(self.now + self.flush_ms, partial(self._flush, partition))

    def _debloat(self, subtask: Subtask) -> None:
        options, gate = self.flow.debloating, subtask.gate
        assert options is not None and gate is not None
        idle = self.now - subtask.since if subtask.state == "idle" else 0.0
        active = max(1.0, options.period_ms - min(idle, options.period_ms))
        if gate.bytes > 0:
            throughput = gate.bytes * 1000.0 / active
            gate.bytes = 0.0
            in_use = sum(buffers_in_use(link) for link in gate.links)
            target = throughput * options.target_ms / 1000.0 / max(1, in_use)
            alpha = 2.0 / (options.samples + 1)
            gate.size += alpha * (min(target, 2.0 * gate.size) - gate.size)
            most = float(self.flow.segment_bytes)
            gate.size = max(float(options.least_bytes), min(gate.size, most))
            edge = gate.size <= options.least_bytes or gate.size >= most
            if edge or abs(gate.size - gate.announced) >= gate.announced * options.threshold:
                gate.announced = gate.size
                for link in gate.links:
                    link.size = gate.size
        self._schedule(self.now + options.period_ms, partial(self._debloat, subtask))

    def _sample(self) -> None:
        for subtask in self.subtasks:
            queue = records = 0
            if subtask.gate is not None:
                for link in subtask.gate.links:
                    held = len(link.received)
                    if link.local:
                        queue += link.backlog
                    else:
                        queue += held
                    records += parcels_of(link)
                records += subtask.left
                received = sum(
                    sum(b.barrier < 0 for b in link.received)
                    for link in subtask.gate.links
                    if not link.local
                )
                if subtask.current is not None:
                    received += not subtask.current[0].local
                gate = subtask.gate
                gate.fullest = max(gate.fullest, received - gate.own)
            out = sum(partition.used for partition in subtask.partitions)
            subtask.samples.append((queue, records * self.parcel, out))
        self._schedule(self.now + self.sample_ms, self._sample)

    # Checkpoints.

    def _trigger(self) -> None:
        number = len(self.triggered)
        self.triggered.append(self.now)
        self.passed.append({})
        self.waited.append({})
        self.overtaken.append(0.0)
        if self.flow.unaligned:
            self.priority.add(number)
        elif self.flow.aligned_timeout_ms is not None:
            late = self.now + self.flow.aligned_timeout_ms
            self._schedule(late, partial(self._overtake_all, number))
        for subtask in self.subtasks:
            if subtask.source:
                subtask.requested_checkpoint = number
                if subtask.done_at < 0:
                    self._wake(subtask)

    def _start_checkpoint(self, subtask: Subtask) -> bool:
        """Emit the barriers of a source between two records. Return False if its snapshot must come first."""
        number = subtask.requested_checkpoint
        subtask.requested_checkpoint = -1
        self._pass_barrier(subtask, number, 0.0)
        self._forward(subtask, number)
        return self._snapshot(subtask)

    def _snapshot(self, subtask: Subtask) -> bool:
        if subtask.task.snapshot_ms <= 0:
            return True
        subtask.snapshot_until = self.now + subtask.task.snapshot_ms
        self._enter(subtask, "busy")
        subtask.scheduled = True
        self._schedule(subtask.snapshot_until, partial(self._step, subtask))
        return False

    def _pass_barrier(self, subtask: Subtask, number: int, waited: float) -> None:
        key = (subtask.task.name, subtask.index)
        done = self.passed[number]
        done[key] = self.now + subtask.task.snapshot_ms - self.triggered[number]
        self.waited[number][key] = waited
        if len(done) == len(self.subtasks):
            due = max(self.now, self.triggered[number] + self.flow.interval_ms)
            self._schedule(due, self._trigger)

    def _forward(self, subtask: Subtask, number: int) -> None:
        subtask.forwarded = number
        for partition in subtask.partitions:
            for link in partition.links:
                if link.open is not None:
                    self._complete_buffer(link)
                if number in self.priority:
                    self.overtaken[number] += sum(b.bytes for b in link.queue)
                    self._overtaking(link, number)
                else:
                    link.queue.append(Buffer(barrier=number))
                    self._offer_data(link)

    def _handle_barrier(self, subtask: Subtask, link: Link, number: int) -> None:
        """Handle a barrier that has reached the head of a queue."""
        if number in self.priority:
            # The barrier was in the queue before its checkpoint became unaligned.
            self._receive_barrier(subtask, link, number)
            if self._has_more(link):
                self._queue_channel(link)
            return
        link.blocked = True
        self._receive_barrier(subtask, link, number)

    def _receive_barrier(self, subtask: Subtask, link: Link, number: int) -> None:
        if subtask.checkpoint != number:
            subtask.checkpoint, subtask.first_at = number, self.now
            subtask.seen = set()
        subtask.seen.add(id(link))
        gate = subtask.gate
        assert gate is not None
        early = number in self.priority and subtask.forwarded != number
        complete = len(subtask.seen) == len(gate.links)
        if early or (complete and subtask.forwarded != number):
            self._forward(subtask, number)
            if number in self.priority:
                waiting = (b.bytes for other in gate.links for b in other.received)
                self.overtaken[number] += sum(waiting)
            self._snapshot(subtask)
        if number in self.priority or complete:
            self._unblock(gate)
        if complete:
            self._pass_barrier(subtask, number, self.now - subtask.first_at)

    def _unblock(self, gate: Gate) -> None:
        """Unblock the channels that waited for the barriers of other channels."""
        for link in gate.links:
            if link.blocked:
                link.blocked = False
                if self._has_more(link):
                    self._queue_channel(link)

    def _overtaking(self, link: Link, number: int) -> None:
        """Handle an unaligned barrier: after the current record, but ahead of all queued data."""
        consumer = link.consumer
        delay = 0.0
        if self.now < consumer.snapshot_until:
            delay = consumer.snapshot_until - self.now
        elif consumer.done_at > self.now and consumer.service > 0:
            delay = math.fmod(consumer.done_at - self.now, consumer.service)
        self._schedule(self.now + delay, partial(self._receive_barrier, consumer, link, number))

    def _overtake_all(self, number: int) -> None:
        """Move the barriers of an aligned checkpoint ahead of all queued data when its timeout expires."""
        if len(self.passed[number]) == len(self.subtasks):
            return
        self.priority.add(number)
        for link in self.links:
            for queue in (link.received, link.queue):
                found = next((b for b in queue if b.barrier == number), None)
                if found is not None:
                    ahead = itertools.takewhile(lambda b, f=found: b is not f, queue)  # type: ignore[misc]
                    self.overtaken[number] += sum(b.bytes for b in ahead)
                    queue.remove(found)
                    self._overtaking(link, number)
        for subtask in self.subtasks:
            # A subtask with some barriers no longer waits for the others.
            if subtask.checkpoint == number and subtask.forwarded != number and subtask.gate:
                self._forward(subtask, number)
                self._unblock(subtask.gate)

    # The end.

    def outcome(self) -> Outcome:
        """Return the outcome of the run."""
        series = {}
        for task in self.job.tasks:
            mine = [s.samples for s in self.subtasks if s.task is task and s.gate is not None]
            if mine:
                count = min(len(samples) for samples in mine)
                series[task.name] = tuple(
                    ((i + 1) * self.sample_ms, float(sum(samples[i][0] for samples in mine)))
                    for i in range(count)
                )
        barriers = []
        for number, begun in enumerate(self.triggered):
            done = self.passed[number]
            complete = len(done) == len(self.subtasks)
            barriers.append(
                Barrier(
                    triggered_ms=begun,
                    duration_ms=max(done.values()) if complete else None,
                    passed_ms=dict(done),
                    waited_ms=dict(self.waited[number]),
                    overtaken_bytes=self.overtaken[number],
                )
            )
        return Outcome(
            subtasks=tuple(map(self._subtask_outcome, self.subtasks)),
            barriers=tuple(barriers),
            queue_over_time=series,
            totals=self._totals(),
            seconds=self.end / 1000.0,
            records_per_parcel=self.parcel,
        )

    def _subtask_outcome(self, subtask: Subtask) -> SubtaskOutcome:
        span = max(1e-9, self.end - self.counting_from)
        first = int(self.counting_from / self.sample_ms)
        counted = subtask.samples[first:] or [(0.0, 0.0, 0.0)]
        queues = [item[0] for item in counted]
        return SubtaskOutcome(
            task=subtask.task.name,
            subtask_index=subtask.index,
            records_per_s=(subtask.records - subtask.counted) * self.parcel * 1000.0 / span,
            busy=subtask.times.get("busy", 0.0) / span,
            back_pressured=subtask.times.get("blocked", 0.0) / span,
            idle=subtask.times.get("idle", 0.0) / span,
            queue=sum(queues) / len(queues),
            queued_records=sum(item[1] for item in counted) / len(counted),
            out_queue=sum(item[2] for item in counted) / len(counted),
            capacity=subtask.gate.own if subtask.gate is not None else 0,
        )

    def _totals(self) -> Totals:
        buffers = sum(
            sum(b.barrier < 0 for b in itertools.chain(link.queue, link.received))
            for link in self.links
        )
        buffers += sum(subtask.current is not None for subtask in self.subtasks)
        parcels = sum(parcels_of(link) for link in self.links)
        parcels += sum(subtask.left for subtask in self.subtasks)
        gates = [s.gate for s in self.subtasks if s.gate is not None]
        return Totals(
            buffers_made=self.made,
            buffers_consumed=self.consumed,
            buffers_queued=buffers,
            records_sent=self.sent * self.parcel,
            records_taken=self.taken * self.parcel,
            records_queued=parcels * self.parcel,
            least_credit=self.least_credit,
            fullest_pool=max((p.fullest - p.overdraft for p in self.partitions), default=0),
            fullest_gate=max((gate.fullest for gate in gates), default=0),
        )
