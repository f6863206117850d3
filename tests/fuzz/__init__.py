"""Fuzzing: invariants that hold for any input, and the search for inputs that break them."""
