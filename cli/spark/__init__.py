"""Starts Spark and keeps it fast. Commands enter through `launch`; all other code uses `starter`."""
