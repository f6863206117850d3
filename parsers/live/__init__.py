"""Collectors that ask a live cluster, and the folder they write. Nothing here imports httpx before it is used."""
