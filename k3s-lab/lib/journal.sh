# shellcheck shell=bash
# What the lab has made, a line each, written before it is made: so that whatever happens, what is
# there is known, and nothing else is ever taken away.

journal() { echo "$STATE/made"; }

made() { [[ -f $(journal) ]] && grep -qxF -- "$*" "$(journal)"; }

# making KIND WHAT...
making() {
  mkdir -p "$STATE"
  made "$@" || printf '%s\n' "$*" >>"$(journal)"
}

forget() {
  grep -vxF -- "$*" "$(journal)" >"$(journal).new" || true
  mv "$(journal).new" "$(journal)"
}

journal_length() { if [[ -f $(journal) ]]; then wc -l <"$(journal)"; else echo 0; fi; }

# undo_after COUNT: takes away what was made after the first COUNT lines, the last thing first. What
# cannot be taken away stays in the journal, and makes it fail.
undo_after() {
  local lines=() line index failed=0
  [[ ! -f $(journal) ]] || mapfile -t lines <"$(journal)"
  for ((index = ${#lines[@]} - 1; index >= $1; index--)); do
    line=${lines[index]}
    # shellcheck disable=SC2086 # a kind and its words
    if "undo_"$line; then
      forget "$line"
    else
      say "could not take away: $line"
      failed=1
    fi
  done
  return "$failed"
}

# whole COMMAND...: either it succeeds, or what it made is taken away again.
whole() {
  local before
  before=$(journal_length)
  # shellcheck disable=SC2064 # as it is now
  trap "broken_off $before" EXIT
  trap 'exit 130' INT TERM
  "$@"
  trap - EXIT INT TERM
}

broken_off() {
  local status=$?
  trap - EXIT INT TERM
  [[ $status != 0 ]] || status=1
  say "broken off; taking away what it made"
  undo_after "$1" || say "run it again, or: $0 down"
  exit "$status"
}

lab_down() {
  [[ -s $(journal) ]] || say "nothing is there that the lab made"
  undo_after 0 || die "not all could be taken away; try again"
  rm -f "$(journal)" "$STATE"/{kubeconfig,token,policy}
}
