#!/bin/bash
# Makes the release archive of the sources: the commit's files, and the files that capi/interface/generate.py makes.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<END
Usage: source_archive.sh [--commit COMMIT] [OUT_DIR]

Writes weir-VERSION.tar.gz into OUT_DIR, the current folder unless given, from COMMIT, HEAD unless given. What is built from it needs no Python.
END
}

commit=HEAD out=.
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --commit) commit=${2:?--commit needs a commit} && shift ;;
    -*) echo "source_archive.sh: unknown option $1; see --help" >&2 && exit 2 ;;
    *) [ "$out" = . ] || { echo "source_archive.sh: one folder, not also $1; see --help" >&2 && exit 2; }; out=$1 ;;
  esac
  shift
done
out=$(realpath -m "$out")
version=$(git -C "$root" show "$commit:CMakeLists.txt" | sed -n 's/^project(weir VERSION \([0-9.]*\).*/\1/p')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git -C "$root" archive --prefix="weir-$version/" "$commit" | tar -x -C "$work"
python3 -B "$work/weir-$version/capi/interface/generate.py" --build "$work/weir-$version/generated"
touch "$work/weir-$version/generated/of_release"
mkdir -p "$out"
tar -C "$work" --sort=name --owner=0 --group=0 --mtime="@$(git -C "$root" log -1 --format=%ct "$commit")" -c "weir-$version" | gzip -n >"$out/weir-$version.tar.gz"
echo "$out/weir-$version.tar.gz"
