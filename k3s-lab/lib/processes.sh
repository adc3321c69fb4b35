# shellcheck shell=bash
# Background processes of the lab.

PIDS=()
#: tenths of a second from SIGTERM to SIGKILL
GRACE=300

# start LOG COMMAND...: start a background process with a log file.
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  PIDS+=($!)
}

# Stop all processes, last one first, as later ones depend on earlier ones.
stop_all() {
  local index waited pid
  for ((index = ${#PIDS[@]} - 1; index >= 0; index--)); do
    pid=${PIDS[index]}
    kill -TERM "$pid" 2>/dev/null || continue
    for ((waited = 0; waited < GRACE; waited++)); do
      kill -0 "$pid" 2>/dev/null || continue 2
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
  done
  PIDS=()
}

# until_so WHAT SECONDS COMMAND...: wait until the command succeeds; fail after the deadline.
until_so() {
  local what=$1 ends=$((SECONDS + $2)) pid
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < ends)) || die "not $what after all this time"
    for pid in "${PIDS[@]}"; do
      kill -0 "$pid" 2>/dev/null || die "not $what: a process ended before"
    done
    sleep 0.2
  done
}

# free_ports COUNT: print unused ports.
free_ports() {
  python3 - "$1" <<'END'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(taken.getsockname()[1] for taken in held))
END
}
