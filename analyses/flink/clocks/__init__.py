"""The instant and the writer of each record."""
