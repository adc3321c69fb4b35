"""Batches beyond the bounds of the tables: heuristics, the programme for a solver, and bounds.

What the room above asks for where it cannot compare all there is; nothing here is needed within.
"""
