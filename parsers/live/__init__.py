"""Collectors for live systems, and the folder they write. httpx is only imported when it is used."""
