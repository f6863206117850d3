"""Collects one application from YARN: `flowdiag collect yarn`."""
