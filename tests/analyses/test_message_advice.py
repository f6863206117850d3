"""Tests the advice that reports quote from messages of exceptions."""

from __future__ import annotations

import pytest

from flowdiag.analyses.knowledge.message_advice import advice_in, with_advice
from flowdiag.analyses.model.finding import Action


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        (
            (
                "org.example.TooFew: 3 of 5 slots. You can increase this number by setting 'a.slots'.\n"
                "\tat org.example.Pool.use(Pool.java:3)"
            ),
            "You can increase this number by setting 'a.slots'.",
        ),
        (
            "ERROR: all replication slots are in use\n  Hint: Free one or increase max_slots.",
            "Hint: Free one or increase max_slots.",
        ),
        (
            "x.IllegalStateException: Cannot process snapshot 7, to ignore it, set skip=true",
            "Cannot process snapshot 7, to ignore it, set skip=true",
        ),
        ("java.io.IOException: Connection reset by peer", ""),
        ("Set(orders-0) are gone", ""),
        ("check constraint violated", ""),
        ("rename destination file:/out/_spark_metadata/0 already exists.", ""),
        ("Use of closed network connection", ""),
        (
            (
                "Provided key schema does not match the existing one. Please check number and type of fields. If you "
                "want to force running the query without schema validation, please set a.stateSchemaCheck to false."
            ),
            "",
        ),
    ],
)
def test_the_advice_of_a_message(text: str, advice: str) -> None:
    assert advice_in(text) == advice


def test_the_error_replaces_the_pointer_to_it() -> None:
    fix = Action(text="Fix the error in the stack trace below")
    (action,) = with_advice((fix,), "a.b.Full: no room\n\tat a.B.c(B.java:1)", "a.b.Full: no room")
    assert action.text == 'Fix "a.b.Full: no room"'


def test_a_quoted_error_leaves_out_the_query_around_it() -> None:
    text = "org.apache.spark.sql.streaming.StreamingQueryException: a.b.Full: no room\n=== Streaming Query ===\nIdentifier: gold"
    (action,) = with_advice((Action(text="Fix the error in the stack trace below"),), text)
    assert action.text == 'Fix "a.b.Full: no room"'


def test_an_action_with_the_option_of_the_message_is_enough() -> None:
    known = Action(text="Set a.slots to 5", option="a.slots")
    assert with_advice(
        (known,), "x.TooFew: You can increase this number by setting 'a.slots'."
    ) == (known,)
