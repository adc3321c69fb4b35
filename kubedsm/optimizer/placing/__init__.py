"""Placement of a batch: exact tables, heuristics, a mixed-integer programme, in order of cost.

`decision` chooses by tables where the exact-search limit allows. Otherwise `heuristics` and
`batch_mip` take over, and `ruled` repairs plans under constraints between pods (`rule_keeping`,
`settling`). No decision is worse than one pod at a time (`batch`).
"""
