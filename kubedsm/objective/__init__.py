"""Objective: QoS targets, edge shares, fairness, gains, fragmentation."""
