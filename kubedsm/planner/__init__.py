"""Planner processes: solve long optimisation requests outside the event loop, before a deadline."""
