"""Reads what only Spark prints: event logs, listener files, progress reports, REST responses.

Start with `events` (event logs) and `rest`.
"""

from typing import Final

LAST_SNAPSHOT: Final = "SnapshotLastUploaded"
"""Key of a state store's metric. Rules import it from here, without the parsers and their libraries."""
NO_REASON: Final = "an error"
"""The cause of a failed batch whose record has no exception."""
