"""Planner process: solves long optimisation requests outside the scheduler's event loop, with
deadlines and restarts.
"""
