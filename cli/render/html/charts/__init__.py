"""The charts of the page, one a file: each says what is seen of rows of the report, and how to read it."""

from __future__ import annotations
