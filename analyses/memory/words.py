"""How the rules of `flowdiag memory` name processes and sizes."""

from __future__ import annotations

from flowdiag.analyses.finding import Subject
from flowdiag.analyses.flink.judging import place_text
from flowdiag.analyses.memory.facts import MemoryProcess


def process_subject(process: MemoryProcess | None) -> Subject:
    """The process itself."""
    if process is None:
        return Subject(kind="process")
    if process.role == "jobmanager":
        return Subject(kind="process", host=process.host)
    return Subject(kind="taskmanager", taskmanager=process.taskmanager, host=process.host)


def process_text(process: MemoryProcess) -> str:
    """A process in a sentence.

    >>> process_text(MemoryProcess(role="taskmanager"))
    'a TaskManager'
    """
    if process.role == "jobmanager":
        return "the JobManager"
    if process.role == "unknown":
        return "a process"
    if process.taskmanager or process.host:
        return f"TaskManager {place_text(process.taskmanager, process.host)}"
    return "a TaskManager"
