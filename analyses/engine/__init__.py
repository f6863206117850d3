"""The Spark side: reading, frames, queries."""
