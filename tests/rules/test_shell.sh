#!/bin/bash
# Checks every script in the tree $1 with shellcheck.
set -euo pipefail
command -v shellcheck >/dev/null || { echo "skipped: shellcheck is not installed"; exit 0; }
cd "$1"
mapfile -t scripts < <(git ls-files 2>/dev/null | grep . || find . -type f -not -path './build*' -not -path './.git/*')
[ ${#scripts[@]} -gt 0 ] || { echo "test_shell: there are no files in $1"; exit 1; }
mapfile -t scripts < <(for file in "${scripts[@]}"; do
  if [ -f "$file" ] && { [[ $file == *.sh ]] || head -c 64 "$file" | grep -qaE '^#!.*\b(ba)?sh\b'; }; then echo "$file"; fi
done)
[ ${#scripts[@]} -ge 10 ] || { echo "test_shell: only ${#scripts[@]} scripts in $1?"; exit 1; }
shellcheck -x --source-path=SCRIPTDIR "${scripts[@]}"
echo "test_shell: ${#scripts[@]} scripts"
