"""Capacity packing: reschedule the whole cluster to place unschedulable pods.

`problem` extends the placement problem by running pods. `packing_search` is large-neighbourhood
search, and `phases` the lexicographic mixed-integer programme. `pack` makes plans without gaps.
"""
