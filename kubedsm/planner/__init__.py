"""Planner process: requests for long optimisations, deadline, restart."""
