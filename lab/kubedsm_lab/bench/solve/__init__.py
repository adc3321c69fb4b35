"""Benchmark `solve`: decisions above the exact-search limit, compared with the optimum."""
