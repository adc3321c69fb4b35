"""Process infrastructure: clock, supervised tasks, back-off, rate limiters, HTTP limits."""
