"""kube-scheduler and KubeDSM on large clouds, when each scores only some of the nodes."""
