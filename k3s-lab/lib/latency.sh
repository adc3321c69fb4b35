# shellcheck shell=bash
# Network latency between the tiers: tc netem delays packets from cloud to edge nodes. Round trips
# take that much longer in both directions.

lab_latency() {
  local time=${1:-60ms} index addresses
  [[ $time =~ ^[0-9]+(us|ms|s)$ || $time == off ]] || die "$time: not a time such as 60ms, nor off"
  read_nodes
  need_cluster
  if [[ $time == off ]]; then
    for index in $(of_tier cloud); do
      if made latency "$(place "$index")"; then
        netem "$(place "$index")" off
        forget latency "$(place "$index")"
      fi
    done
    return
  fi
  addresses=$(edge_addresses InternalIP)
  # shellcheck disable=SC2086 # split into words
  whole delay_all "$time" $addresses
  say "packets from cloud to edge are delayed by $time; adjust latency.queries in manifests/kubedsm/config.yaml"
}

# edge_addresses TYPE...: print an address of each edge node, of the first type that the node has.
edge_addresses() {
  local index type found
  for index in $(of_tier edge); do
    for type in "$@"; do
      found=$(kube get node "$(node_name "$index")" \
        -o "jsonpath={.status.addresses[?(@.type=='$type')].address}")
      # In a dual-stack cluster, the IPv4 address, which K3s' tunnels use.
      [[ -z $found ]] || break
    done
    echo "${found%% *}"
  done
}

delay_all() {
  local time=$1 index
  shift
  for index in $(of_tier cloud); do
    making latency "$(place "$index")"
    netem "$(place "$index")" "$time" "$@"
  done
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
