"""Findings of RT101: batches and triggers that fall behind."""
