"""Capacity packing: migrates and evicts running pods so that unschedulable pods fit.

`problem` extends the placement problem by running pods. `packing_search` is large-neighbourhood
search, and `phases` the lexicographic mixed-integer programme. `pack` makes plans without gaps.
"""
