# shellcheck shell=bash
# Table of nodes, and commands on a node. Nodes of your own cluster (LAB_KUBECONFIG) are those with a
# tier in its labels, unless LAB_NODES names a table.

# columns of the table, one entry per node
NAMES=() TIERS=() SITES=() CPUS=() MEMORIES=() TARGETS=()

read_nodes() {
  local name tier cpu memory target more number=0 form='^[A-Za-z0-9@._-]+$' amount='^([0-9]+|-)$'
  local tiers='^(server|cloud|edge(:[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?)$'
  if by_kubeconfig && [[ -z ${LAB_NODES:-} ]]; then
    read_labels
    return
  fi
  [[ -r $NODES ]] || die "$NODES: cannot be read"
  while read -r name tier cpu memory target more || [[ -n $name ]]; do
    number=$((number + 1))
    [[ -n $name && $name != '#'* ]] || continue
    [[ $name =~ $form && $tier =~ $tiers && $cpu =~ $amount && $memory =~ $amount &&
      (-z $target || $target =~ $form) && -z $more ]] ||
      die "$NODES:$number: not NAME server|edge[:SITE]|cloud CPU MEMORY [SSH]"
    [[ $tier == *:* ]] || tier=$tier:
    NAMES+=("$name") TIERS+=("${tier%%:*}") SITES+=("${tier#*:}") CPUS+=("$cpu") MEMORIES+=("$memory") TARGETS+=("$target")
  done <"$NODES"
  for tier in edge cloud; do
    [[ " ${TIERS[*]} " == *" $tier "* ]] || die "$NODES: no $tier node"
  done
  if by_kubeconfig; then
    [[ " ${TIERS[*]} " != *" server "* && ${CPUS[*]}${MEMORIES[*]} != *[0-9]* ]] ||
      die "$NODES: nodes of your own cluster are edge or cloud, and as large as they are: NAME TIER - -"
  elif by_ssh; then
    [[ $(printf '%s\n' "${TIERS[@]}" | grep -cx server) == 1 ]] || die "$NODES: not one server"
  else
    [[ " ${TIERS[*]} " != *" server "* ]] || die "$NODES: k3d makes the server; name none"
  fi
  ! by_ssh || [[ $(printf '%s\n' "${TARGETS[@]}" | grep -c .) == "${#NAMES[@]}" ]] ||
    die "$NODES: some nodes have a machine, and some have none"
}

# Read the nodes of your own cluster that have a tier, and the sites of the edge nodes.
read_labels() {
  local name tier site
  need_cluster
  while read -r name tier site; do
    [[ $tier == edge ]] || site=
    NAMES+=("$name") TIERS+=("$tier") SITES+=("$site") CPUS+=(-) MEMORIES+=(-) TARGETS+=("")
  done < <(kube get nodes -l "$TIER_LABEL in (edge, cloud)" \
    -o "jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.${TIER_LABEL//./\\.}} {.metadata.labels.${SITE_LABEL//./\\.}}{\"\n\"}{end}")
  [[ " ${TIERS[*]} " == *" edge "* && " ${TIERS[*]} " == *" cloud "* ]] ||
    die "the cluster has no nodes labelled $TIER_LABEL=edge and $TIER_LABEL=cloud; label them, or name them in a table, LAB_NODES=FILE, of lines NAME edge|cloud - -"
}

by_kubeconfig() { [[ -n ${LAB_KUBECONFIG:-} ]]; }

by_ssh() { [[ "${TARGETS[*]}" == *[![:space:]]* ]]; }

of_tier() {
  local index
  for index in "${!NAMES[@]}"; do
    [[ ${TIERS[index]} != "$1" ]] || echo "$index"
  done
}

# site_of NUMBER: print the site of the users of a service, by its number; empty without sites.
site_of() {
  local found
  mapfile -t found < <(printf '%s\n' "${SITES[@]}" | awk 'NF && !seen[$0]++')
  [[ ${#found[@]} == 0 ]] || echo "${found[$1 % ${#found[@]}]}"
}

# entrance NUMBER: print the index of the edge node where the requests of a service enter.
entrance() {
  local index site
  site=$(site_of "$1")
  for index in $(of_tier edge); do
    if [[ -z $site || ${SITES[index]} == "$site" ]]; then
      echo "$index"
      return
    fi
  done
}

# Print the node's name in the cluster.
node_name() {
  if by_ssh || by_kubeconfig; then echo "${NAMES[$1]}"; else echo "k3d-$CLUSTER-agent-$1"; fi
}

# on_machine SSH WORDS...: run a command as root, with this standard input. Words need no quoting.
on_machine() {
  local target=$1
  shift
  # shellcheck disable=SC2029 # expand on this side
  ssh -o BatchMode=yes -o ConnectTimeout=10 -o StrictHostKeyChecking=accept-new "$target" \
    "if [ \$(id -u) = 0 ]; then $*; else sudo -n $*; fi"
}

# reserved INDEX CORES(m) MEMORY(MB): print the kubelet argument that reserves the part of the
# machine that is not for pods; empty if there is none.
reserved() {
  local cpu=0 memory=0
  [[ ${CPUS[$1]} == - ]] || cpu=$(($2 - CPUS[$1]))
  [[ ${MEMORIES[$1]} == - ]] || memory=$(($3 - MEMORIES[$1]))
  ((cpu >= 0 && memory >= 0)) ||
    die "${NAMES[$1]}: ${CPUS[$1]}m and ${MEMORIES[$1]} MB are more than its machine's $2m and $3 MB"
  ((cpu + memory == 0)) || echo "system-reserved=cpu=${cpu}m,memory=${memory}M"
}
