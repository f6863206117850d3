"""The advice for more tasks per batch."""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h

BLOCK_INTERVAL: Final = "spark.streaming.blockInterval"
SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
SHORTEST_MS: Final = 50  # shorter blocks cost more scheduling time than they save


def more_tasks(flow: h.Flow, cores: int) -> tuple[h.Action, ...]:
    app, remedy, proposed = flow.assessed.app, "partitions", {}
    if flow.query is not None:
        # The option only affects the tasks of a shuffle.
        tasks = {str(unit.stage.tasks) for unit in flow.units if unit.stage is not None}
        if tasks == {app.settings.get(SHUFFLE_PARTITIONS)}:
            remedy, proposed = "shuffle", {"shuffle": float(cores)}
    else:
        # The longest block interval that results in one block per core and batch.
        streams = {s.stream for b in app.batches for s in b.streams}
        now = h.duration_ms(app.settings.get(BLOCK_INTERVAL, "200ms")) or 200.0
        most = max(float(SHORTEST_MS), (app.interval_ms or 0) * max(1, len(streams)) / cores)
        shorter = app.receivers and most < now
        remedy, proposed = ("blocks", {"blocks": most}) if shorter else ("repartition", {})
    return h.remedies("few-tasks", app, remedy, proposed=proposed, cores=str(cores))
