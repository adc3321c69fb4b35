"""Whatever can go wrong, put into a run at one point, and what must be true all the same.

Runs are in virtual time on the emulated cluster, and each can be repeated exactly. Nothing here
knows how the scheduler works: it is judged by what it asks, and by what becomes of the cluster.
"""
