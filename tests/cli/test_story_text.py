"""The paragraph of a story, which states each fact once."""

from __future__ import annotations

from msgspec import structs

from flowdiag.cli.text.stories import StoryView, story_paragraph

from .reports import failing

ERROR = "KafkaException: Unexpected error in InitProducerIdResponse; The timeout is larger than the maximum"


def test_the_error_of_the_root_is_not_repeated() -> None:
    finding = failing().findings[0]
    root = structs.replace(finding, title=f"Sink (2/2) failed, 13 restarts: {ERROR}")
    loop = structs.replace(
        finding, title=f"13 restarts without success; first failure: {ERROR[:-20]}…"
    )
    late = structs.replace(
        finding, title="13 failures within 52.7 s; first failure: Sink (2/2), " + ERROR
    )
    view = StoryView(head=root, root=root, consequences=(("the job restarts", (loop, late)),))
    assert story_paragraph(view) == (
        f"Sink (2/2) failed, 13 restarts: {ERROR}. "
        "The job restarts: 13 restarts without success; 13 failures within 52.7 s."
    )
