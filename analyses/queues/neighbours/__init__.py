"""The systems around a job: sources that it falls behind, and databases that its sinks wait for."""
