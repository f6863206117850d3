"""Assesses the current state of every application and query."""

from __future__ import annotations

from dataclasses import dataclass, field

from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.neighbours.facts import Neighbours
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.assessment.batches import dstream_state
from flowdiag.analyses.rate.assessment.endings import without_effects_of_stop
from flowdiag.analyses.rate.assessment.state import StreamState
from flowdiag.analyses.rate.assessment.triggers import query_state
from flowdiag.analyses.rate.facts import ApplicationFacts, QueryFacts, RateFacts
from flowdiag.analyses.rate.replay import Replay


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedApplication:
    """An application with the states of its batches and queries."""

    app: ApplicationFacts
    state: StreamState | None  # the state of its DStreams
    estimators: tuple[Replay, ...]
    queries: tuple[tuple[QueryFacts, StreamState], ...]
    others: tuple[ApplicationFacts, ...] = ()  # the other applications of the input
    neighbours: Neighbours = field(default_factory=Neighbours)

    @property
    def key(self) -> JobKey:
        """The key that identifies the application in findings."""
        return self.app.key

    @property
    def dstreams(self) -> tuple[StreamState, ...]:
        """The state of the DStreams; empty without DStreams."""
        return () if self.state is None else (self.state,)

    @property
    def states(self) -> tuple[StreamState, ...]:
        """The states of its DStreams and of its queries."""
        return (*self.dstreams, *(state for _, state in self.queries))

    def estimator_of(self, stream: int) -> Replay | None:
        return next((one for one in self.estimators if one.stream == stream), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The assessed applications that the rules of `rate` judge."""

    applications: tuple[AssessedApplication, ...]


def assess(facts: RateFacts, *, retention_ms: int | None = None) -> Assessment:
    """Replay the estimators and judge the current state of every application.

    Args:
        facts: the facts of all applications.
        retention_ms: retention time of the topics; None for Kafka's default.
    """
    applications = tuple(map(without_effects_of_stop, facts.applications))
    return Assessment(
        applications=tuple(
            AssessedApplication(
                app=app,
                estimators=(estimators := pid.replays(app)),
                state=dstream_state(app, estimators, retention_ms) if app.batches else None,
                queries=tuple((query, query_state(query)) for query in app.queries),
                others=tuple(one for one in applications if one is not app),
                neighbours=facts.neighbours,
            )
            for app in applications
        )
    )
