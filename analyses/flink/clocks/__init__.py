"""Which instant each record was written at, and by whom."""
