# shellcheck shell=bash
# Messages to the user, and missing requirements.

say() { printf 'lab: %s\n' "$*" >&2; }

die() {
  printf 'lab: error: %s\n' "$*" >&2
  exit 1
}

MISSING=

# missing WHAT HOW: report a missing requirement once, with its remedy.
missing() {
  [[ $MISSING == *"|$1|"* ]] || say "missing: $1; $2"
  MISSING+="|$1|"
}

# need COMMAND HOW: report the command as missing unless it is installed.
need() { command -v "$1" >/dev/null || missing "$1" "$2"; }

# Exit if any requirement is missing.
nothing_missing() { [[ -z $MISSING ]] || exit 1; }
