"""The charts of the page, one per module, each with the text that explains how to read it."""

from __future__ import annotations
