"""Reads what only Spark prints: event logs, listener files, progress reports, REST responses.

Start with `events` (event logs) and `rest`.
"""

from typing import Final

LAST_SNAPSHOT: Final = "SnapshotLastUploaded"
"""Metric with the version of a partition's last snapshot, or -1; Spark names only the partitions furthest behind.

Rules import it from here, without the parsers and their libraries.
"""
NO_REASON: Final = "an error"
"""The cause of a failed batch whose record has no exception."""
