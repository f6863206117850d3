"""`flowdiag explain` answers about codes in failure texts and about components."""

from __future__ import annotations

import pytest

from flowdiag.cli.reference.manual import explanation
from flowdiag.parsers.errors import FlowdiagError


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("ORA-01555", ("ORA-01555", "undo data")),
        ("exit 239", ("exit code 239", "Flink")),
        ("53300", ("SQLSTATE 53300", "max_connections")),
        ("UNKNOWN_TOPIC_OR_PARTITION", ("a retry can succeed", "kafka-clients")),
        ("ProducerFencedException", ("PRODUCER_FENCED",)),
        ("OOMKilled", ("container's limit",)),
        ("rocksdb", ("RocksDB or ForSt", "org.rocksdb")),
        ("org.postgresql.util.PSQLException", ("PostgreSQL",)),
        ("CP101", ("CP101 checkpoint-expired",)),
    ],
)
def test_codes_and_components(words: str, parts: tuple[str, ...]) -> None:
    text = explanation(words)
    for part in parts:
        assert part in text


def test_unknown_words_are_an_error() -> None:
    with pytest.raises(FlowdiagError, match="no rule, cause, code or component 'ORA'"):
        explanation("ORA")
