"""Lines: the search for candidates, the layouts of their beginnings, records and stack traces."""
