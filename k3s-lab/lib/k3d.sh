# shellcheck shell=bash
# Nodes as containers on this machine, by k3d.

need_k3d() {
  need docker "https://docs.docker.com/engine/install"
  need k3d "https://k3d.io"
}

k3d_up() {
  if made k3d "$CLUSTER"; then
    if ! k3d cluster list "$CLUSTER" >/dev/null 2>&1; then k3d_create; fi
  else
    ! k3d cluster list "$CLUSTER" >/dev/null 2>&1 ||
      die "k3d has a cluster $CLUSTER already, and not by this lab; LAB_CLUSTER names another"
    making k3d "$CLUSTER"
    k3d_create
  fi
  (umask 077 && k3d kubeconfig get "$CLUSTER" >"$STATE/kubeconfig")
}

k3d_create() {
  local index host arguments=() kept port number=0
  host=$(docker info --format '{{.NCPU}} {{.MemTotal}}')
  for index in "${!NAMES[@]}"; do
    # Without a reservation, each node would report this machine's full capacity.
    kept=$(reserved "$index" "$((${host% *} * 1000))" "$((${host#* } / 1000000))")
    [[ -z $kept ]] || arguments+=(--k3s-arg "--kubelet-arg=$kept@agent:$index")
  done
  while read -r _ _ _ port; do
    arguments+=(--port "127.0.0.1:$port:$port@agent:$(entrance "$number"):direct")
    number=$((number + 1))
  done < <(services)
  k3d cluster create "$CLUSTER" --image "rancher/k3s:${K3S_VERSION/+/-}" \
    --servers 1 --agents "${#NAMES[@]}" --no-lb --wait --timeout 300s \
    --kubeconfig-update-default=false --kubeconfig-switch-context=false \
    --k3s-arg '--disable=traefik@server:*' \
    --k3s-arg '--node-taint=CriticalAddonsOnly=true:NoSchedule@server:*' \
    "${arguments[@]}"
}

undo_k3d() { k3d cluster delete "$1"; }
