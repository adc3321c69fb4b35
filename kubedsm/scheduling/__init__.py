"""Immediate scheduler: queue, batch window, scheduling cycle, preemption."""
