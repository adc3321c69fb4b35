"""Placement of new pods: edge or cloud, which node, and which pods to preempt."""
