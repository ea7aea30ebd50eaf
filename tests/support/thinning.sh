# shellcheck shell=bash
# To be sourced by scripts: runs part of a list of cases, as thinning.hpp does, but at least one of each list.

in_turn() { # NUMBER OF: true where case NUMBER of OF is one to run
  local every=${TEST_EVERY:-1}
  ((every <= $2)) || every=$2
  (($1 % every == ${TEST_OFFSET:-0} % every))
}

in_turn_of() { # CASE...: those to run, a line each
  local i
  for ((i = 0; i < $#; ++i)); do
    if in_turn "$i" $#; then printf '%s\n' "${@:i+1:1}"; fi
  done
}
