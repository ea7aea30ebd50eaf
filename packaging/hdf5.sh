#!/bin/bash
# Builds HDF5 for archives and wheels: only the C library, static, without the parts that need curl or OpenSSL.
set -euo pipefail
source=''

usage() {
  cat <<END
Usage: hdf5.sh [--source TARBALL] PREFIX

Then configure Weir with PKG_CONFIG_PATH=PREFIX/lib/pkgconfig. Debian's HDF5 reads files from the web, too, and so needs curl, OpenSSL and
thirty more libraries, which no archive and no wheel should carry. Without --source, 'apt-get source hdf5' gets it. If apt's sources have
no deb-src line, a copy of them below the temporary folder has one. Needs a C compiler, make and zlib1g-dev.
END
}

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --source) source=$(realpath "$2") && shift ;;
    -*) echo "hdf5.sh: unknown option $1; see --help" >&2 && exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -eq 1 ] || { usage >&2; exit 2; }
prefix=$(realpath -m "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/build"
# Does what a deb-src line in apt's sources would allow, without changing them.
apt_without_deb_src() {
  local own=$work/apt options file
  mkdir -p "$own"/{parts,lists/partial,cache/archives/partial}
  sed 's/^deb /deb-src /' /etc/apt/sources.list >"$own/sources.list" 2>/dev/null || touch "$own/sources.list"
  for file in /etc/apt/sources.list.d/*.list; do [ ! -e "$file" ] || sed 's/^deb /deb-src /' "$file" >"$own/parts/${file##*/}"; done
  for file in /etc/apt/sources.list.d/*.sources; do [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$own/parts/${file##*/}"; done
  options=(-o "Dir::Etc::SourceList=$own/sources.list" -o "Dir::Etc::SourceParts=$own/parts" -o "Dir::State::Lists=$own/lists" -o "Dir::Cache=$own/cache")
  apt-get "${options[@]}" -q update && (cd "$work" && apt-get "${options[@]}" -q source --download-only hdf5)
}
if [ -z "$source" ]; then
  { (cd "$work" && apt-get -q source --download-only hdf5) || apt_without_deb_src; } >"$work/apt.log" 2>&1 || {
    tail -3 "$work/apt.log" >&2
    echo "hdf5.sh: 'apt-get source hdf5' got nothing: give --source TARBALL" >&2
    exit 1
  }
  source=$(ls "$work"/hdf5_*.orig.tar.*)
fi
tar xf "$source" -C "$work/source" --strip-components=1
cd "$work/build"
step() { "$@" >>"$work/log" 2>&1 || { tail -20 "$work/log" >&2; echo "hdf5.sh: '$*' failed" >&2; exit 1; }; }
# Hidden symbols: a program may use another HDF5.
step env CFLAGS="-O2 -fvisibility=hidden" "$work/source/configure" --prefix="$prefix" --disable-shared --enable-static --with-pic --disable-hl --disable-tests --disable-tools \
  --without-szlib --with-zlib --enable-build-mode=production
step make -j "$(nproc)"
step make install
version=$(sed -n 's/^#define H5_VERS_INFO *"HDF5 library version: \([0-9.]*\).*/\1/p' "$prefix/include/H5public.h")
mkdir -p "$prefix/lib/pkgconfig" "$prefix/share/doc/hdf5"
cp "$work/source/COPYING" "$prefix/share/doc/hdf5"
cat >"$prefix/lib/pkgconfig/hdf5-serial.pc" <<END
copyright=$prefix/share/doc/hdf5/COPYING

Name: hdf5
Description: HDF5's C library, static
Version: $version
Cflags: -I$prefix/include
Libs: -L$prefix/lib -lhdf5 -lz -ldl -lm
END
echo "HDF5 $version in $prefix; configure Weir with PKG_CONFIG_PATH=$prefix/lib/pkgconfig"
