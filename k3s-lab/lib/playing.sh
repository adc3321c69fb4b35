# shellcheck shell=bash
# Scenarios played against the services, and their reports.

need_playing() {
  local command
  for command in kubedsm loadgen; do
    need "$command" "python3 -m venv .venv && .venv/bin/pip install . && . .venv/bin/activate"
  done
}

# A round name, such as normal-1.5-0.4; or a file in the form of docs/loadgen.md. Prints the file.
scenario_file() {
  local given=${1:-$HERE/scenarios/short.json}
  [[ -r $given ]] || die "$given: no such scenario; loadgen generate makes one"
  echo "$given"
}

lab_run() {
  local scenario policy address name port endpoints=()
  scenario=$(scenario_file "${1:-}")
  read_nodes
  need_cluster
  need_playing
  nothing_missing
  [[ -r $STATE/policy ]] || die "nothing is deployed; $0 deploy"
  policy=$(<"$STATE/policy")
  # Requests come in at the edge, where the users are.
  address=127.0.0.1
  if by_ssh; then address=$(edge_addresses | head -n 1); fi
  while read -r name _ _ port; do
    endpoints+=(--endpoint "$name=http://$address:$port/")
  done < <(services)
  played "$scenario" "$policy" "$KUBECONFIG_OF_LAB" "$REPORTS/$(date +%Y%m%d-%H%M%S)" "${endpoints[@]}"
}
