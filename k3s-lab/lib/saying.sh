# shellcheck shell=bash
# Words to the user, and what is missing.

say() { printf 'lab: %s\n' "$*" >&2; }

die() {
  printf 'lab: error: %s\n' "$*" >&2
  exit 1
}

MISSING=

# missing WHAT HOW: one line for each thing that is missing, with how to get it.
missing() {
  [[ $MISSING == *"|$1|"* ]] || say "missing: $1; $2"
  MISSING+="|$1|"
}

# need COMMAND HOW
need() { command -v "$1" >/dev/null || missing "$1" "$2"; }

# Ends it if anything was missing.
nothing_missing() { [[ -z $MISSING ]] || exit 1; }
