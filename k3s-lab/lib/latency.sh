# shellcheck shell=bash
# The distance between the tiers: what a cloud node sends to an edge node comes late, by tc netem. So
# a round trip takes that much longer, whoever began it.

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
  addresses=$(edge_addresses)
  # shellcheck disable=SC2086 # words
  whole delay_all "$time" $addresses
  say "what the cloud sends to the edge comes $time later; mind latency.queries in manifests/kubedsm/config.yaml"
}

edge_addresses() {
  local index found
  for index in $(of_tier edge); do
    found=$(kube get node "$(node_name "$index")" \
      -o 'jsonpath={.status.addresses[?(@.type=="InternalIP")].address}')
    # With two families, the IPv4 one: what K3s' tunnels are made between.
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

# Where a node is: ssh:TARGET, or docker:CONTAINER.
place() { if by_ssh; then echo "ssh:${TARGETS[$1]}"; else echo "docker:$(node_name "$1")"; fi; }

# netem PLACE TIME ADDRESS... | netem PLACE off
netem() {
  local place=$1 script=$HERE/lib/on-node/netem.sh
  shift
  case $place in
    ssh:*) on_machine "${place#ssh:}" sh -s - "$@" <"$script" ;;
    docker:*)
      docker run --rm --interactive --network "container:${place#docker:}" --cap-add NET_ADMIN \
        "$NETSHOOT" sh -s - "$@" <"$script"
      ;;
  esac
}

undo_latency() {
  # A container takes its network with it, and may be gone.
  netem "$1" off || [[ $1 == docker:* ]]
}
