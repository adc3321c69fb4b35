"""Data model of the cluster: Pod, Node, Workload, Snapshot, and the mirror of observed objects."""
