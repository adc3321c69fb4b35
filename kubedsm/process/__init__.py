"""Mechanisms of the process: clock, supervised tasks, back-off, rate limits, HTTP limits."""
