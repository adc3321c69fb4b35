# The cluster of cluster.sh, for the same arguments, with `kubedsm run` that leads.
. tests/support/first_hour/cluster.sh
kubedsm run --configmap kubedsm/kubedsm >run.log 2>&1 &
until grep -q '"leading"' run.log; do sleep 0.1; done
