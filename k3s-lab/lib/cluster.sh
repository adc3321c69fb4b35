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
  if by_ssh; then
    need_machines
  elif ! by_kubeconfig; then
    need_k3d
    need_modules "this machine" sh -s -
  fi
}

#: kernel modules of `lab latency`
MODULES="sch_netem sch_prio cls_u32"

# need_modules MACHINE SHELL...: report kernel modules that the machine lacks.
need_modules() {
  local machine=$1 lacking
  shift
  # shellcheck disable=SC2016,SC2086 # a script, and words
  lacking=$("$@" $MODULES <<<'PATH=$PATH:/usr/sbin:/sbin
for module; do
  [ -d "/sys/module/$module" ] || modprobe -n -q "$module" 2>/dev/null || printf "%s " "$module"
done') || return 0
  [[ -z $lacking ]] || missing "${lacking% } on $machine" \
    "apt-get install linux-modules-extra-\$(uname -r), or a kernel of your distribution with them"
}

lab_check() {
  need_image
  need_playing
  need_emulated
  read_nodes
  need_nodes
  nothing_missing
  say "nothing is missing"
}

lab_up() {
  ! by_kubeconfig || die "LAB_KUBECONFIG names a cluster already; next: $0 deploy"
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
    kube label --overwrite node "$(node_name "$index")" "$TIER_LABEL=${TIERS[index]}"
    [[ -z ${SITES[index]} ]] ||
      kube label --overwrite node "$(node_name "$index")" "$SITE_LABEL=${SITES[index]}"
  done
}

# Label the nodes of your own cluster with their tiers and sites in the table.
label_nodes() {
  local index
  for index in $(of_tier edge) $(of_tier cloud); do
    label_node tier "${NAMES[index]}" "$TIER_LABEL" "${TIERS[index]}"
    [[ -z ${SITES[index]} ]] || label_node site "${NAMES[index]}" "$SITE_LABEL" "${SITES[index]}"
  done
}

# label_node KIND NODE LABEL VALUE: set a label, unless the node has another value, not by this lab.
label_node() {
  local found
  found=$(kube get node "$2" -o "jsonpath={.metadata.labels.${3//./\\.}}") ||
    die "$NODES: the cluster has no node $2"
  [[ $found != "$4" ]] || return 0
  [[ -z $found ]] || made "$1" "$2" || die "$2 has $1 $found already, and not by this lab"
  making "$1" "$2"
  kube label --overwrite node "$2" "$3=$4"
}

undo_tier() { unlabel "$1" "$TIER_LABEL"; }

undo_site() { unlabel "$1" "$SITE_LABEL"; }

unlabel() {
  local found
  found=$(kube get node "$1" --ignore-not-found -o name) || return
  [[ -z $found ]] || kube label node "$1" "$2-"
}
