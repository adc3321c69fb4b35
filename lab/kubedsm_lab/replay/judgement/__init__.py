"""Operator's scenes: short courses of a cluster, each with the placement that an experienced
operator expects.
"""
