#!/bin/bash
# Makes the .deb and .tar.gz of build trees and installs and runs them in a fresh root.
set -euo pipefail
suite=bookworm
mirror=http://deb.debian.org/debian
keep='' base=''

usage() {
  cat <<END
Usage: test_clean_root.sh [--keep DIR] [--base DIR] BUILD...

BUILD is a build folder, one for Open MPI, for MPICH or both. Needs root, debootstrap and Debian's mirror; says 'skipped: ...' without.
A root with Debian's smallest set of packages is made; there the .deb are installed, used, removed again, and the .tar.gz unpacked in
/opt and used. --keep DIR leaves the packages there; --base DIR copies a root that debootstrap has made instead of making one.
END
}

fail() { echo "test_clean_root: $*" >&2; exit 1; }
builds=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --keep) keep=$(realpath -m "$2") && shift ;;
    --base) base=$(realpath "$2") && shift ;;
    *) builds+=("$(realpath "$1")") ;;
  esac
  shift
done
[ ${#builds[@]} -gt 0 ] || { usage >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "skipped: needs root"; exit; }
[ -n "$base" ] || command -v debootstrap >/dev/null || { echo "skipped: needs debootstrap"; exit; }
# A mount namespace of its own: nothing stays mounted, however this ends.
[ -n "${WEIR_OWN_MOUNTS:-}" ] || exec env WEIR_OWN_MOUNTS=1 unshare --mount "$0" ${keep:+--keep "$keep"} ${base:+--base "$base"} "${builds[@]}"

work=$(mktemp -d)
root=$work/root
trap 'umount -R "$root"/{proc,sys,dev} 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
packages=${keep:-$work/packages}
mkdir -p "$packages"
for build in "${builds[@]}"; do
  (cd "$build" && cpack -G "DEB;TGZ" -B "$packages" >"$work/cpack.log" 2>&1) || { cat "$work/cpack.log"; fail "cpack in $build"; }
done
rm -rf "$packages/_CPack_Packages"
ls -l "$packages"

if [ -n "$base" ]; then
  cp -a "$base" "$root"
else
  debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -5 "$work/debootstrap.log"; echo "skipped: debootstrap gets nothing from $mirror"; exit; }
fi
cp /etc/resolv.conf "$root/etc"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
cp "$packages"/*.deb "$packages"/*.tar.gz "$root/root"
in_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    chroot "$root" bash -c "set -euo pipefail; $1"
}
use() { # WEIR FAMILY: the command, alone and with 2 ranks
  local options=
  [ "$2" = mpich ] || options="--oversubscribe --bind-to none"
  in_root "$1 info" | grep "^weir " >/dev/null || fail "$1 info"
  in_root "mpiexec.$2 $options -n 2 $1 bench allreduce --count 10000 --iterations 2" | grep oktopk || fail "$1 bench allreduce with 2 ranks"
}

in_root "apt-get -q update && apt-get -qy install --no-install-recommends /root/*.deb" >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log"; fail "apt-get install"; }
for archive in "$packages"/*.tar.gz; do
  family=$(basename "$archive" | cut -d- -f2)
  echo "-- .deb, $family"
  use "weir-$family" "$family"
  in_root "update-alternatives --set weir /usr/bin/weir-$family" >/dev/null
  [ "$(in_root "readlink -f /usr/bin/weir")" = "/usr/bin/weir-$family" ] || fail "/usr/bin/weir is not weir-$family"
done
in_root "apt-get -qy purge weir-common && apt-get -qy purge libfmt9 libhwy1" >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log"; fail "apt-get purge"; }
left=$(in_root "find /usr /etc -iname '*weir*'")
[ -z "$left" ] || fail "left behind by the .deb: $left"
for archive in "$packages"/*.tar.gz; do
  family=$(basename "$archive" | cut -d- -f2)
  echo "-- .tar.gz, $family"
  in_root "mkdir /opt/$family && tar xf /root/$(basename "$archive") -C /opt/$family --strip-components=1"
  use "/opt/$family/bin/weir" "$family"
done
echo "clean root: ok"
