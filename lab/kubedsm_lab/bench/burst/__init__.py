"""Benchmark `burst`: one Deployment's pods created at once, under one scheduler after another."""
