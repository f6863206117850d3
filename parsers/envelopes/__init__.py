"""Carriers: container logs, exports of log stores and other wrappings of lines."""
