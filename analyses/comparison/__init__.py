"""Compares two reports: findings by fingerprint, measures by a suitable statistical test."""
