# shellcheck shell=bash
# Journal of what the lab creates, one line each, written before the creation. After any failure the
# lab therefore removes everything that it created, and nothing else.

journal() { echo "$STATE/made"; }

made() { [[ -f $(journal) ]] && grep -qxF -- "$*" "$(journal)"; }

# making KIND WHAT...: record a creation in the journal.
making() {
  mkdir -p "$STATE"
  made "$@" || printf '%s\n' "$*" >>"$(journal)"
}

forget() {
  grep -vxF -- "$*" "$(journal)" >"$(journal).new" || true
  mv "$(journal).new" "$(journal)"
}

journal_length() { if [[ -f $(journal) ]]; then wc -l <"$(journal)"; else echo 0; fi; }

# undo_after COUNT: remove what is recorded after the first COUNT lines, last one first. What cannot
# be removed stays in the journal, and the exit code is 1.
undo_after() {
  local lines=() line index failed=0
  [[ ! -f $(journal) ]] || mapfile -t lines <"$(journal)"
  for ((index = ${#lines[@]} - 1; index >= $1; index--)); do
    line=${lines[index]}
    # shellcheck disable=SC2086 # a kind and its words
    if "undo_"$line; then
      forget "$line"
    else
      say "could not remove: $line"
      failed=1
    fi
  done
  return "$failed"
}

# whole COMMAND...: run a command; if it fails, remove everything that it created.
whole() {
  local before
  before=$(journal_length)
  # shellcheck disable=SC2064 # expand now
  trap "broken_off $before" EXIT
  trap 'exit 130' INT TERM
  "$@"
  trap - EXIT INT TERM
}

broken_off() {
  local status=$?
  trap - EXIT INT TERM
  [[ $status != 0 ]] || status=1
  say "interrupted or failed; removing what was created"
  undo_after "$1" || say "run it again, or: $0 down"
  exit "$status"
}

lab_down() {
  [[ -s $(journal) ]] || say "the lab has created nothing"
  undo_after 0 || die "some parts could not be removed; try again"
  rm -f "$(journal)" "$STATE"/{kubeconfig,token,policy}
}
