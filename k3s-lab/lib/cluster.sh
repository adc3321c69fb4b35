# shellcheck shell=bash
# Cluster of the lab: created by k3d or by ssh, then accessed by its kubeconfig.

kube() { kubectl --kubeconfig "$KUBECONFIG_OF_LAB" "$@"; }

need_kubectl() { need kubectl "https://kubernetes.io/docs/tasks/tools"; }

need_cluster() {
  need_kubectl
  [[ -r $KUBECONFIG_OF_LAB ]] || missing "a cluster" "make one: $0 up"
  nothing_missing
}

need_nodes() {
  need_kubectl
  if by_ssh; then need_machines; else need_k3d; fi
}

lab_check() {
  read_nodes
  need_nodes
  need_image
  need_playing
  need_emulated
  nothing_missing
  say "nothing is missing"
}

lab_up() {
  read_nodes
  need_nodes
  nothing_missing
  mkdir -p "$STATE"
  chmod 700 "$STATE"
  whole bring_up
  say "up: export KUBECONFIG=$KUBECONFIG_OF_LAB"
}

bring_up() {
  local index
  if by_ssh; then machines_up; else k3d_up; fi
  for index in $(of_tier edge) $(of_tier cloud); do
    kube wait --for=condition=Ready --timeout=180s "node/$(node_name "$index")"
    kube label --overwrite node "$(node_name "$index")" "kubedsm.io/tier=${TIERS[index]}"
  done
}
