"""The report: its wire types, how it is built, cited, redacted."""
