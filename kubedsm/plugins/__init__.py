"""Filter and Score plugins under the names of kube-scheduler."""
