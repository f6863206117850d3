"""The JSON that a JobManager logs at DEBUG when a checkpoint ends.

`CheckpointStatistics (for jobID=…, checkpointId=…) dump = {json} ` (1.18+, loggers
`CheckpointStatsTracker` and `DefaultCheckpointStatsTracker`; catalogue/flink.md 1.3): the same
shape as the REST response for one checkpoint, with every vertex, in one log line.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.parsers.flink.rest_rows import Context, checkpoint_rows
from flowdiag.parsers.flink.rest_shapes import Ids
from flowdiag.parsers.json_values import decode_json


def parse_dump(
    json_text: str | bytes, job_id: str | None = None, checkpoint: int | None = None
) -> list[dict[str, Any]]:
    """Turn one dump into a `checkpoint_status` row and one `checkpoint_vertex` row per vertex.

    Args:
        json_text: the text after `dump = `, with or without whitespace around it.
        job_id, checkpoint: from the text in front of it.

    Returns:
        Rows without `source`, `offset` and the columns of the record's prefix; templates
        `dump-checkpoint` and `dump-checkpoint-vertex`; fields.origin is `dump`. Empty for
        other text, such as cut lines.
    """
    text = json_text.encode("utf-8", "replace") if isinstance(json_text, str) else json_text
    try:
        body = decode_json(text.strip())
    except ValueError:
        return []
    if not isinstance(body, Mapping) or "trigger_timestamp" not in body:
        return []
    context = Context(origin="dump", ids=Ids(job_id=job_id, checkpoint=checkpoint))
    return list(checkpoint_rows(body, context, detail="details"))
