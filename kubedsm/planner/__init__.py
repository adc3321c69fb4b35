"""Planner process: solves long optimisation requests outside the event loop, before a deadline."""
