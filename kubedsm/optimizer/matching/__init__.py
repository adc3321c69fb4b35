"""Placement problem as arrays, and exact and heuristic algorithms that assign pods to nodes."""
