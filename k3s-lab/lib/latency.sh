# shellcheck shell=bash
# Network latency between tiers and between sites: tc netem delays packets from cloud to edge nodes,
# and from edge nodes to those of other sites further down in the table. Round trips take that much
# longer in both directions.

lab_latency() {
  local time=${1:-60ms} between=${2:-} each index form='^[0-9]+(us|ms|s)$'
  for each in $time $between; do
    [[ $each =~ $form || "$*" == off ]] || die "$each: not a time such as 60ms, nor off"
  done
  read_nodes
  need_cluster
  if [[ $time == off ]]; then
    for index in $(of_tier edge) $(of_tier cloud); do undelay "$index"; done
    return
  fi
  [[ -z $between || "${SITES[*]}" == *[![:space:]]* ]] ||
    die "no edge node has a site: write edge:SITE in the table of nodes, or label nodes with $SITE_LABEL"
  whole delay_all "$time" "$between"
  say "packets from cloud to edge are delayed by $time; adjust latency.queries in manifests/kubedsm/config.yaml"
  [[ -z $between ]] ||
    say "packets between sites are delayed by $between; latency.neighbour is that much more than latency.edge"
}

# address_of INDEX TYPE...: print an address of a node, of the first type that the node has.
address_of() {
  local node type found
  node=$(node_name "$1")
  for type in "${@:2}"; do
    found=$(kube get node "$node" -o "jsonpath={.status.addresses[?(@.type=='$type')].address}")
    # In a dual-stack cluster, the IPv4 address, which K3s' tunnels use.
    [[ -z $found ]] || break
  done
  echo "${found%% *}"
}

# delay_all TIME [TIME-BETWEEN-SITES]
delay_all() {
  local index other edge=() addresses=()
  mapfile -t edge < <(of_tier edge)
  for index in "${edge[@]}"; do addresses[index]=$(address_of "$index" InternalIP); done
  for index in $(of_tier cloud); do
    delay "$index" "$1" "${addresses[@]}"
  done
  for index in "${edge[@]}"; do
    local others=()
    for other in "${edge[@]}"; do
      if ((other > index)) && [[ ${SITES[other]} != "${SITES[index]}" ]]; then
        others+=("${addresses[other]}")
      fi
    done
    if [[ -n $2 && ${#others[@]} != 0 ]]; then delay "$index" "$2" "${others[@]}"; else undelay "$index"; fi
  done
}

# delay INDEX TIME ADDRESS...: delay packets of a node to the addresses.
delay() {
  local at
  at=$(place "$1")
  making latency "$at"
  netem "$at" "${@:2}"
}

undelay() {
  local at
  at=$(place "$1")
  if made latency "$at"; then
    netem "$at" off
    forget latency "$at"
  fi
}

# Print the location of a node: ssh:TARGET, node:NAME of your own cluster, or docker:CONTAINER.
place() {
  if by_ssh; then
    echo "ssh:${TARGETS[$1]}"
  elif by_kubeconfig; then
    echo "node:${NAMES[$1]}"
  else
    echo "docker:$(node_name "$1")"
  fi
}

# netem PLACE TIME ADDRESS... | netem PLACE off: run netem.sh on a node.
netem() {
  local place=$1 script=$HERE/lib/on-node/netem.sh
  shift
  case $place in
    ssh:*) on_machine "${place#ssh:}" sh -s - "$@" <"$script" ;;
    docker:*)
      docker run --rm --interactive --network "container:${place#docker:}" --cap-add NET_ADMIN \
        "$NETSHOOT" sh -s - "$@" <"$script"
      ;;
    node:*)
      kube -n kube-system run "netem-$RANDOM" --image="$NETSHOOT" --restart=Never --rm --attach \
        --quiet --pod-running-timeout=2m --override-type=json --overrides="$(in_network_of "${place#node:}")" \
        --command -- sh -c "$(<"$script")" netem "$@"
      ;;
  esac
}

# in_network_of NODE: print the JSON patch that has a pod change the network of a node.
in_network_of() {
  cat <<END
[{"op": "add", "path": "/spec/nodeName", "value": "$1"},
 {"op": "add", "path": "/spec/hostNetwork", "value": true},
 {"op": "add", "path": "/spec/tolerations", "value": [{"operator": "Exists"}]},
 {"op": "add", "path": "/spec/containers/0/securityContext",
  "value": {"runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}}}]
END
}

undo_latency() {
  # A deleted container has no network left to restore.
  netem "$1" off || [[ $1 == docker:* ]]
}
