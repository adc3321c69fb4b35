# shellcheck shell=bash
# Nodes on your own machines: K3s server and agents, installed by ssh.

need_machines() {
  local index target
  need ssh "install an OpenSSH client"
  by_kubeconfig || [[ -r $K3S_INSTALLER ]] ||
    missing "K3s' installer" "read and keep it: mkdir -p $STATE && curl -sfL https://get.k3s.io -o $K3S_INSTALLER"
  command -v ssh >/dev/null || return 0
  for index in "${!TARGETS[@]}"; do
    target=${TARGETS[index]}
    on_machine "$target" true </dev/null || {
      missing "root on $target" "let ssh in without a password, as root or with sudo"
      continue
    }
    on_machine "$target" which tc curl </dev/null >/dev/null ||
      missing "tc or curl on $target" "apt-get install iproute2 curl, or your distribution's"
    [[ ${TIERS[index]} != cloud ]] || need_modules "$target" on_machine "$target" sh -s -
  done
}

machines_up() {
  local index server address url
  server=$(of_tier server)
  [[ -s $STATE/token ]] ||
    (umask 077 && head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$STATE/token")
  address=$(on_machine "${TARGETS[server]}" hostname -I </dev/null)
  url=https://${address%% *}:6443
  install_k3s "$server" server server --disable=traefik --write-kubeconfig-mode=600 \
    --node-taint=CriticalAddonsOnly=true:NoSchedule "--tls-san=${TARGETS[server]#*@}"
  on_machine "${TARGETS[server]}" cat /etc/rancher/k3s/k3s.yaml </dev/null |
    (umask 077 && sed "s|https://127.0.0.1:6443|$url|" >"$STATE/kubeconfig")
  for index in $(of_tier edge) $(of_tier cloud); do
    install_k3s "$index" agent agent "--server=$url"
  done
}

# install_k3s INDEX KIND ARGUMENTS...: install K3s; idempotent, as K3s' installer is.
install_k3s() {
  local index=$1 kind=$2 target=${TARGETS[$1]} size kept
  shift 2
  if ! made "$kind" "$target"; then
    ! on_machine "$target" which k3s </dev/null >/dev/null ||
      die "$target has K3s already, and not by this lab"
    making "$kind" "$target"
  fi
  size=$(on_machine "$target" cat /proc/cpuinfo /proc/meminfo </dev/null |
    awk '/^processor/ {cores++} /^MemTotal:/ {kib = $2}
      END {printf "%d %d", cores * 1000, kib * 1.024 / 1000}')
  kept=$(reserved "$index" "${size% *}" "${size#* }")
  [[ -z $kept ]] || set -- "$@" "--kubelet-arg=$kept"
  say "$target: K3s $K3S_VERSION, $kind"
  # The token is passed by standard input: other users can see arguments.
  {
    printf 'export K3S_TOKEN=%s INSTALL_K3S_VERSION=%s\n' "$(<"$STATE/token")" "$K3S_VERSION"
    cat "$K3S_INSTALLER"
  } | on_machine "$target" sh -s - "$@" "--node-name=${NAMES[index]}"
}

uninstall() {
  # Without the uninstaller, K3s was never installed.
  on_machine "$1" sh -c "'! [ -x $2 ] || $2'" </dev/null
}

undo_server() { uninstall "$1" /usr/local/bin/k3s-uninstall.sh; }

undo_agent() { uninstall "$1" /usr/local/bin/k3s-agent-uninstall.sh; }
