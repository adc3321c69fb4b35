# shellcheck shell=bash
# Processes that the lab starts, and ends again.

PIDS=()
#: tenths of a second that one has to end by itself
GRACE=300

# start LOG COMMAND...
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  PIDS+=($!)
}

# The last one first, as they need one another.
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

# until_so WHAT SECONDS COMMAND...: or it ends with a line.
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

# That many ports on which nobody listens.
free_ports() {
  python3 - "$1" <<'END'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(taken.getsockname()[1] for taken in held))
END
}
