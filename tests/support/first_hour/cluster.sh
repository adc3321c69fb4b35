# An emulated cluster for the commands of a page, with what `manifests` has; $1: a cluster file, if it
# is not to be the papers' cluster.
export KUBECONFIG=$PWD/emulated.yaml
kubedsm emulate --cluster "${1:-paper}" --port 0 --kubeconfig "$KUBECONFIG" >emulate.log 2>&1 &
until grep -q KUBECONFIG emulate.log; do sleep 0.1; done
kubectl apply -k manifests
