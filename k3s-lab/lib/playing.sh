# shellcheck shell=bash
# Load scenarios sent to the services, and their reports.

need_playing() {
  local command install="python3 -m venv .venv && .venv/bin/pip install -c constraints.txt . ./lab && . .venv/bin/activate"
  for command in python3 kubedsm loadgen; do
    need "$command" "$install"
  done
  # Reports have pictures; finding the library is faster than importing it.
  ! command -v python3 >/dev/null ||
    python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("matplotlib") is None)' ||
    missing matplotlib "$install"
}

# Print the scenario file, by default the short one. Format: docs/how-to/generate-load.md.
scenario_file() {
  local given=${1:-$HERE/scenarios/short.json}
  [[ -r $given ]] || die "$given: no such scenario; loadgen generate makes one"
  echo "$given"
}

# played SCENARIO POLICY KUBECONFIG PORT FOLDER ENDPOINT...: send and record the load of a scenario;
# write the report to the directory. The scheduler reports effects of migrations at this local port.
# The caller must call stop_all at the end.
played() {
  local scenario=$1 policy=$2 kubeconfig=$3 port=$4 folder=$5 endpoint endpoints=() recorder
  shift 5
  for endpoint; do endpoints+=(--endpoint "$endpoint"); done
  mkdir -p "$folder"
  # The load begins once the recorder follows the cluster, and the recording ends with the load.
  start "$folder/recording" kubedsm record --scenario "$scenario" --policy "$policy" \
    --kubeconfig "$kubeconfig" --namespace lab --server "http://127.0.0.1:$port" \
    --requests "$folder/requests.json" --out "$folder"
  recorder=${PIDS[-1]}
  # The recorder's own timeouts end it if the cluster does not answer.
  while kill -0 "$recorder" 2>/dev/null && ! is_recording; do sleep 0.1; done
  is_recording || die "no recording: $(tail -n 1 "$folder/recording")"
  loadgen run "$scenario" "${endpoints[@]}" -o json >"$folder/requests.json"
  wait "$recorder" || die "the recording failed: $(tail -n 1 "$folder/recording")"
  cat "$folder/recording"
}

# True once the recorder of `played` follows the cluster.
is_recording() { grep -q '^kubedsm: recording ' "$folder/recording"; }

lab_run() {
  local scenario policy address=127.0.0.1 name port endpoints=() number=0 index addresses=()
  local folder told
  scenario=$(scenario_file "${1:-}")
  read_nodes
  need_cluster
  need_playing
  nothing_missing
  [[ -r $STATE/policy ]] || die "nothing is deployed; $0 deploy"
  policy=$(<"$STATE/policy")
  while read -r name _; do
    # Requests enter at the edge, where the users are.
    if by_ssh || by_kubeconfig; then
      index=$(entrance "$number")
      [[ -n ${addresses[index]:-} ]] ||
        addresses[index]=$(address_of "$index" ExternalIP InternalIP)
      address=${addresses[index]}
    fi
    number=$((number + 1))
    port=$(kube -n lab get service "$name" -o 'jsonpath={.spec.ports[0].nodePort}')
    endpoints+=("$name=http://$address:$port/")
  done < <(services)
  folder=$REPORTS/$(date +%Y%m%d-%H%M%S)-$policy
  mkdir -p "$folder"
  trap stop_all EXIT
  trap 'exit 130' INT TERM
  told=$(free_ports 1)
  if [[ $policy == kubedsm ]]; then ask_leader "$told" "$folder"; fi
  played "$scenario" "$policy" "$KUBECONFIG_OF_LAB" "$told" "$folder" "${endpoints[@]}"
}

# ask_leader PORT FOLDER: forward a local port to the scheduler replica that leads.
ask_leader() {
  local leader
  leader=$(kube -n kubedsm get lease kubedsm -o 'jsonpath={.spec.holderIdentity}')
  start "$2/port-forward" kubectl --kubeconfig "$KUBECONFIG_OF_LAB" -n kubedsm \
    port-forward "pod/${leader%%_*}" "$1:10270"
}

lab_report() {
  local found=()
  need_playing
  nothing_missing
  mapfile -t found < <(find "$REPORTS" -mindepth 2 -maxdepth 2 -name results.json \
    -not -path '*/compared/*' -printf '%h\n' 2>/dev/null | sort)
  [[ ${#found[@]} != 0 ]] || die "$REPORTS: no run yet; $0 run"
  kubedsm record --compare "${found[@]}" --out "$REPORTS/compared"
  say "the page: $REPORTS/compared/index.html"
}
