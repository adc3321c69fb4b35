"""Data model of the cluster: Pod, Node, Resources, Workload, Snapshot, and the mirror updated by
the reflectors.
"""
