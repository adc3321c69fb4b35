"""Latencies of a real control plane, drawn at random for an emulated one.

Source: kube-apiserver and kube-controller-manager 1.35.5 with etcd 3.5.16, on two cores that other
processes kept busy; audit log of 151 Deployments with three replicas. Only the extremes of both
latencies were recorded, so that draws are uniform between them.
"""

#: least and most seconds from the decision to create a pod until it is stored: 20 to 60 ms
CREATION = (0.020, 0.060)
#: least and most seconds from a write until a watch delivers it: decisions 4 to 83 ms after a bind
#: had been answered were made before the watch delivered that bind
DELIVERY = (0.004, 0.083)
