"""New pods: which of them go where, and who makes room for them.

Nothing here moves a pod that runs but by preemption.
"""
