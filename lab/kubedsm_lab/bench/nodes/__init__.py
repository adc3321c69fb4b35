"""Clouds of many nodes, and what it costs to look at some of them only, or at all.

kube-scheduler's percentageOfNodesToScore beside `cloud.percentageOfNodes`, on values alone: no API
server, and nothing is bound.
"""
