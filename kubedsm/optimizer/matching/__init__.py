"""Placement problem as arrays, its exact dynamic programme, and heuristic construction.

`PlacementProblem` (nodes times kinds of pods) is common to batches, packing and departures.
`match` is the exact engine, O(nodes x loads x count vectors); `best_fit` constructs greedily and
improves by ejection chains; `node_walk` is the shortest path of the suggester.
"""
