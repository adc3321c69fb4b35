"""Capacity packing: repack the whole cluster for unschedulable pods."""
