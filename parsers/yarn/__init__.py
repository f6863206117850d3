"""YARN: answers of its REST APIs, and the files of its log aggregation."""
