# shellcheck shell=bash
need_emulated() {
  local command
  for command in prometheus prometheus-node-exporter; do
    need "$command" "apt-get install $command"
  done
}
