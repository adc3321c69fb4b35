"""Objective function: QoS targets, edge shares, fairness, migration gains, fragmentation."""
