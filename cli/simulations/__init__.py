"""`flowdiag simulate`: from flags, reports and inputs to what a model plays."""
