"""New pods: which of them go where, and which pods make room for them.

Nothing here moves a pod that runs but by preemption.
"""
