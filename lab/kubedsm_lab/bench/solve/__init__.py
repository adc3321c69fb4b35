"""Decisions above the exact-search limit, next to the best there is."""
