"""Everything about starting Spark. Commands come in by `early`, whoever needs a session by `starter`."""
