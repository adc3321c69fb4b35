"""Placement of batches of pending pods: exact tables, heuristics, and an integer programme (MIP).

`decision` uses exact tables within the exact-search limit. Above this limit `heuristics` and
`batch_mip` take over, and `by_site` with demand by site. `ruled` repairs placements under
constraints between pods (`rule_keeping`, `settling`). No decision is worse than scheduling one pod
at a time (`settling`).
"""
