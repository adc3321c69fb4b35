"""Cluster values: Pod, Node, Resources, Workload, Snapshot, and the mirror that follows them."""
