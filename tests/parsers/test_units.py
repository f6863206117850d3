"""Tests durations, sizes and versions: nothing raises, and each flag restricts the accepted
forms.
"""

from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.units import (
    KUBERNETES_UNITS,
    TIME_UNITS,
    duration_ms,
    size_bytes,
    version_of,
)

TEXTS = st.text(alphabet="0123456789.,-+ ePTHMSptmshdkKgGiBbv", max_size=14)


@given(TEXTS)
def test_any_text_is_accepted_or_rejected(text: str) -> None:
    taken = duration_ms(text)
    assert duration_ms(text, whole=True, iso=False) in (None, taken)
    size = size_bytes(text)
    assert size is None or size >= 0
    assert size_bytes(text, whole=True) in (None, size)
    version = version_of(text)
    assert version_of(text, plain=True) in (None, version)


def test_units_determine_the_value() -> None:
    assert duration_ms("1 h", units={"ms": 1, "s": 1000}) is None
    assert duration_ms("2", bare="min") == 2 * TIME_UNITS["min"]
    assert duration_ms("PT1H") == duration_ms("1 hour") == 3_600_000
    assert [size_bytes(text, units=KUBERNETES_UNITS) for text in ("1k", "1Ki", "1K")] == [
        1000,
        1024,
        None,
    ]
    assert size_bytes("9007199254740993") == 9007199254740993
