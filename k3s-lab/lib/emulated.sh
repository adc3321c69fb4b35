# shellcheck shell=bash
# Lab on this machine, in minutes: emulated cluster with pods as processes, a real Prometheus, and
# the scheduler. All programs listen on loopback only.

need_emulated() {
  local command
  for command in prometheus prometheus-node-exporter; do
    need "$command" "apt-get install $command"
  done
  need_playing
}

lab_emulated() {
  # Your own cluster is not this one.
  # shellcheck disable=SC2034 # read by by_kubeconfig
  local scenario folder LAB_KUBECONFIG=
  scenario=$(scenario_file "${1:-}")
  read_nodes
  need_emulated
  nothing_missing
  WORK=$(mktemp -d)
  trap emulated_over EXIT
  trap 'exit 130' INT TERM
  read -r API PROMETHEUS CLUSTER_METRICS SCHEDULER EXPLAINS MACHINE < <(free_ports 6)
  folder=$REPORTS/$(date +%Y%m%d-%H%M%S)-emulated
  LOGS=$folder/logs
  mkdir -p "$LOGS"
  start_measuring
  start_cluster
  start_scheduler
  rendered services kubedsm | of_lab emulated_lab.create "http://127.0.0.1:$API"
  until_so "every service Ready" 90 all_ready
  say "playing $scenario"
  # shellcheck disable=SC2046 # an endpoint has no spaces
  played "$scenario" kubedsm "$WORK/kubeconfig" "$EXPLAINS" "$folder" $(proxies)
  of_lab emulated_lab.check "http://127.0.0.1:$API" "http://127.0.0.1:$PROMETHEUS" \
    "$WORK/config.yaml" "$folder"
  say "the report: $folder"
}

emulated_over() {
  local status=$?
  stop_all
  if [[ $status != 0 ]]; then tail -n 5 "$LOGS"/* >&2 && say "the logs: $LOGS"; fi
  rm -rf "$WORK"
  exit "$status"
}

# of_lab MODULE ARGUMENTS...: run a Python module of this directory.
of_lab() { PYTHONPATH=$HERE${PYTHONPATH:+:$PYTHONPATH} python3 -m "$@"; }

answers() { python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout=5)' "$1"; }

# filled FILE: write a configuration with its placeholders filled in.
filled() {
  # shellcheck disable=SC2016 # placeholders
  sed -e 's|\$SCHEDULER|'"127.0.0.1:$SCHEDULER|" -e 's|\$CLUSTER|'"127.0.0.1:$CLUSTER_METRICS|" \
    -e 's|\$MACHINE|'"127.0.0.1:$MACHINE|" -e 's|\$WORK|'"$WORK|" \
    -e 's|\$PROMETHEUS|'"http://127.0.0.1:$PROMETHEUS|" "$HERE/emulated_lab/$1" >"$WORK/$1"
}

start_measuring() {
  filled prometheus.yml
  # Prometheus discovers scrape targets in this directory (file_sd).
  mkdir "$WORK/pods"
  start "$LOGS/node-exporter" prometheus-node-exporter \
    --web.listen-address="127.0.0.1:$MACHINE" --log.level=warn --no-collector.systemd
  start "$LOGS/prometheus" prometheus --config.file="$WORK/prometheus.yml" \
    --storage.tsdb.path="$WORK/prometheus" --web.listen-address="127.0.0.1:$PROMETHEUS" \
    --log.level=warn
  until_so "Prometheus ready" 60 answers "http://127.0.0.1:$PROMETHEUS/-/ready"
}

start_cluster() {
  local index
  for index in "${!NAMES[@]}"; do
    [[ ${TIERS[index]} != server ]] || continue
    [[ ${CPUS[index]}${MEMORIES[index]} != *-* ]] ||
      die "${NAMES[index]}: an emulated node has no machine that says how large it is"
    echo "- {name: ${NAMES[index]}, tier: ${TIERS[index]}, cpu: ${CPUS[index]}m, memory: ${MEMORIES[index]}M}"
  done | sed '1i nodes:' >"$WORK/nodes.yaml"
  start "$LOGS/cluster" kubedsm emulate --cluster "$WORK/nodes.yaml" --port "$API" \
    --kubeconfig "$WORK/kubeconfig" --run-pods "$WORK/pods" --network edge=20ms,cloud=80ms \
    --metrics-address "127.0.0.1:$CLUSTER_METRICS" --hpa-metrics "http://127.0.0.1:$PROMETHEUS"
  until_so "the cluster up" 60 answers "http://127.0.0.1:$API/readyz"
}

start_scheduler() {
  filled config.yaml
  start "$LOGS/scheduler" kubedsm run --kubeconfig "$WORK/kubeconfig" --config "$WORK/config.yaml" \
    --metrics-address "127.0.0.1:$SCHEDULER" --diagnostics-port "$EXPLAINS"
  until_so "the scheduler leading" 60 answers "http://127.0.0.1:$SCHEDULER/readyz"
}

# Print the endpoint of each service as NAME=URL.
proxies() {
  python3 - "$WORK/pods/services.json" <<'END'
import json, sys
for name, url in json.load(open(sys.argv[1])).items():
    print(f"{name.removeprefix('lab/')}={url.rstrip('/')}/")
END
}

all_ready() {
  local endpoint
  [[ $(proxies | wc -l) == "$(services | wc -l)" ]] || return
  for endpoint in $(proxies); do answers "${endpoint#*=}readyz" || return; done
}
