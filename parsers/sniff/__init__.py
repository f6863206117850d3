"""Who recognises what an input is, by its content."""
