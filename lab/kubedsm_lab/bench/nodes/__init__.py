"""Benchmark `nodes`: kube-scheduler and KubeDSM on large clouds, scoring some of the nodes only."""
