"""Benchmark `scale`: cost of watches, decisions, suggestions and the process at a cluster size."""
