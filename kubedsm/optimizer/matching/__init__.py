"""Placement problem (pods to nodes) as arrays, solved exactly by dynamic programming or heuristics.

`PlacementProblem` (nodes times kinds of interchangeable pods) is shared by batch scheduling,
packing and departures from the edge. `match` is the exact engine, O(nodes x loads x count
vectors).
`best_fit` constructs placements greedily and improves them by ejection chains.
`node_walk` is the shortest-path algorithm of the migration suggester.
"""
