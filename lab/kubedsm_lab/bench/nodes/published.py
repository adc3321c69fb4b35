"""What was published of kube-scheduler on many nodes.

The seed has no figures of its own. kube-scheduler's scheduler_perf has thresholds, pods a second
that its CI lets it not fall below, at 5,000 nodes: in Go, all nodes alike, binds to an API server
and its etcd included, so not to be compared with decisions alone.
"""

CI_FLOOR = (680, 810)
CI_NODES = 5000
