# shellcheck shell=bash
# Deployment of KubeDSM, Prometheus, Grafana, and the services with their autoscalers.

need_image() {
  if [[ $IMAGE == */* ]]; then return; fi
  need docker "https://docs.docker.com/engine/install"
  ! command -v docker >/dev/null || docker image inspect "$IMAGE" >/dev/null 2>&1 ||
    missing "the image $IMAGE" "build it: docker build -t $IMAGE ."
  ! by_kubeconfig ||
    missing "an image that the nodes of your cluster can pull" "name it: LAB_IMAGE=REGISTRY/$IMAGE"
}

lab_deploy() {
  local policy=${1:-kubedsm}
  scheduler_of "$policy" >/dev/null
  read_nodes
  need_cluster
  need_image
  nothing_missing
  whole deploy_all "$policy"
  echo "$policy" >"$STATE/policy"
  say "placed by $policy; Grafana: kubectl -n lab-monitoring port-forward svc/grafana 3000"
}

scheduler_of() {
  case $1 in
    kubedsm) echo kubedsm ;;
    kube-scheduler) echo default-scheduler ;;
    *) die "$1: not kubedsm or kube-scheduler" ;;
  esac
}

deploy_all() {
  local name
  ! by_kubeconfig || label_nodes
  bring_image
  apply kubedsm kubedsm
  apply monitoring lab-monitoring
  apply services lab "$(scheduler_of "$1")"
  kube -n kubedsm rollout status --timeout=180s deployment/kubedsm
  for name in prometheus prometheus-adapter grafana; do
    kube -n lab-monitoring rollout status --timeout=300s "deployment/$name"
  done
  while read -r name _; do
    kube -n lab rollout status --timeout=180s "deployment/$name"
  done < <(services)
  kube wait --for=condition=Available --timeout=180s apiservice/v1beta1.custom.metrics.k8s.io
}

# Import the image on every node, unless its name has a /: then nodes pull it from a registry.
bring_image() {
  local target
  if [[ $IMAGE == */* ]]; then return; fi
  if by_ssh; then
    for target in "${TARGETS[@]}"; do
      docker save "$IMAGE" | on_machine "$target" k3s ctr images import -
    done
  else
    k3d image import --cluster "$CLUSTER" "$IMAGE"
  fi
}

# apply WHAT NAMESPACE [SCHEDULER]: apply manifests; fail if the namespace belongs to others.
apply() {
  if ! made applied "$1"; then
    ! kube get namespace "$2" >/dev/null 2>&1 ||
      die "there is a namespace $2 already, and not by this lab"
    making applied "$1"
  fi
  rendered "$1" "${3:-}" | kube apply -f -
}

undo_applied() {
  # A failure is ignored if the lab also removes the cluster.
  rendered "$1" any | kube delete --ignore-not-found -f - ||
    grep -qE '^(k3d|server) ' "$(journal)"
}

# rendered WHAT SCHEDULER: print manifests, with the configured image for kubedsm:0.1.0.
rendered() {
  case $1 in
    services) rendered_services "$2" ;;
    *) kube kustomize "$HERE/manifests/$1" ;;
  esac | sed "s|image: kubedsm:0.1.0|image: $IMAGE|"
}

services() { grep -v '^#' "$HERE/services"; }

rendered_services() {
  local name cpu memory port number=0 site
  cat "$HERE/manifests/namespace.yaml"
  while read -r name cpu memory port; do
    site=$(site_of "$number")
    number=$((number + 1))
    echo ---
    # shellcheck disable=SC2016 # placeholders of the manifest
    sed -e "${site:+s/ # by site$//;}/ # by site$/d" -e 's|\$SITE|'"$site|" -e 's|\$NAME|'"$name|" -e 's|\$CPU|'"$cpu|" -e 's|\$MEMORY|'"$memory|" \
      -e 's|\$PORT|'"$port|" -e 's|\$SCHEDULER|'"$1|" "$HERE/manifests/service.yaml"
  done < <(services)
}
