"""Scheduling policy protocol, and the KubeDSM policy combining placement, migration and packing."""
