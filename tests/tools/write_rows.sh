#!/bin/sh
# Usage: write_rows.sh SOURCES TREE    copies what the tools read into TREE, runs them there, and counts the files that they touch
set -eu
sources=$1 tree=$2
rm -rf "$tree" "$tree.before"
for file in src/collectives/algorithms.def src/compress/compressors.def src/compress/ef_sign_sgd.cpp src/compress/dgc.cpp docs/which-algorithm.md docs/compressors.md \
    tests/docs/allreduce_topk_ring.cpp catalogue/compressors/lossless.cpp; do
  mkdir -p "$tree/$(dirname "$file")"
  cp "$sources/$file" "$tree/$file"
done

# touches TOOL NAME ...: runs the tool, and fails unless it touches three files
touches() {
  tool=$1
  shift
  cp -r "$tree" "$tree.before"
  "$sources/tools/$tool" "$@" --root "$tree" >"$tree.log" || { cat "$tree.log"; exit 1; }
  touched=$(diff -rq "$tree.before" "$tree" | wc -l)
  rm -rf "$tree.before"
  if [ "$touched" -ne 3 ]; then
    echo "tools/$tool $* touches $touched files instead of 3"
    exit 1
  fi
}
touches new-algorithm test_ring_of_rows
touches new-compressor test_momentum_of_rows --like dgc
touches new-compressor test_signs_of_rows

# refuses TOOL TEXT NAME ...: checks that the tool prints TEXT and changes nothing
refuses() {
  tool=$1 text=$2
  shift 2
  cp -r "$tree" "$tree.before"
  if "$sources/tools/$tool" "$@" --root "$tree" >"$tree.log" 2>&1 || ! grep -qF "$text" "$tree.log" || ! diff -rq "$tree.before" "$tree"; then
    echo "tools/$tool $*: instead of '$text' it says:"
    cat "$tree.log"
    exit 1
  fi
  rm -rf "$tree.before"
}
refuses new-algorithm "there is an algorithm 'oktopk' already" oktopk
refuses new-algorithm "'My-Ring' cannot name an algorithm" My-Ring
refuses new-algorithm "'auto' already" auto
refuses new-compressor "there is a compressor 'qsgd' already" qsgd
refuses new-compressor "there is no compressor 'best'" another --like best

# A copy of one of the catalogue stays there. In a tree of its own, since what it includes is in the sources.
tree=$tree.catalogue
rm -rf "$tree"
cp -r "${tree%.catalogue}" "$tree"
touches new-compressor test_bytes_of_rows --like lossless
grep -q '^WEIR_IN_CATALOGUE(WEIR_COMPRESSOR(test_bytes_of_rows))$' "$tree/src/compress/compressors.def"
"${CXX:-c++}" -std=c++20 -fsyntax-only -DWEIR_CATALOGUE "-DHWY_DISABLED_TARGETS=(HWY_SSE4|HWY_SSSE3)" -I "$tree" -I "$sources" -I "$sources/src" -I "$sources/include" \
  "$tree/catalogue/compressors/test_bytes_of_rows.cpp"
rm -rf "$tree"
