#!/bin/bash
# Installs packages in a fresh root and runs them there, as on a user's machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=bookworm base='' keep='' build_deb=''
debs=() archives=() wheels=()

usage() {
  cat <<END
Usage: test_clean_root.sh [--suite NAME] [--base DIR] [--keep DIR] [--build-deb] [--deb BUILD]... [--archive BUILD]... [--wheel FILE]...

A root with the smallest set of packages of a release is made: of Debian (bookworm unless --suite says otherwise) or Ubuntu (noble, ...).
  --deb BUILD       the .deb of a build folder are made, checked by lintian where it is installed, installed, used and removed; BUILD was
                    built on that release
  --build-deb       the same with .deb for Open MPI that are built in such a root first
  --archive BUILD   the .tar.gz of a build folder, with HDF5 from hdf5.sh, is made, unpacked in /opt, and used
  --wheel FILE      the wheel is installed in a virtual environment and used: without an MPI of the system, beside Open MPI, and beside MPICH
  --keep DIR        leaves the packages there
  --base DIR        copies a root that debootstrap has made instead of making one
Each is used with 1 and 2 ranks. Needs root, debootstrap, and the mirrors of the release and PyPI; says 'skipped: ...' without.
END
}

fail() { echo "test_clean_root: $*" >&2; exit 1; }
given=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --suite) suite=$2 && shift ;;
    --base) base=$(realpath "$2") && shift ;;
    --keep) keep=$(realpath -m "$2") && shift ;;
    --build-deb) build_deb=yes ;;
    --deb) debs+=("$(realpath "$2")") && shift ;;
    --archive) archives+=("$(realpath "$2")") && shift ;;
    --wheel) wheels+=("$(realpath "$2")") && shift ;;
    *) echo "test_clean_root.sh: unknown option $1; see --help" >&2 && exit 2 ;;
  esac
  shift
done
[ -n "$build_deb" ] || [ $((${#debs[@]} + ${#archives[@]} + ${#wheels[@]})) -gt 0 ] || { usage >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "skipped: needs root"; exit; }
[ -n "$base" ] || command -v debootstrap >/dev/null || { echo "skipped: needs debootstrap"; exit; }
# A private mount namespace: nothing stays mounted, however the script ends.
[ -n "${WEIR_OWN_MOUNTS:-}" ] || exec env WEIR_OWN_MOUNTS=1 unshare --mount "$0" "${given[@]}"

work=$(mktemp -d)
root=$work/root
clean_up() {
  local place
  for place in "$work"/{root,builder}/{proc,sys,dev,source}; do
    ! mountpoint -q "$place" || umount -R "$place" || return
  done
  rm -rf --one-file-system "$work"
}
trap clean_up EXIT
packages=${keep:-$work/packages}
mkdir -p "$packages"
make_package() { # BUILD GENERATOR
  (cd "$1" && cpack -G "$2" -B "$packages" >"$work/cpack.log" 2>&1) || { cat "$work/cpack.log" >&2; fail "cpack -G $2 in $1"; }
  rm -rf "$packages/_CPack_Packages"
}
for build in "${debs[@]}"; do make_package "$build" DEB; done
for build in "${archives[@]}"; do make_package "$build" TGZ; done
for wheel in "${wheels[@]}"; do cp "$wheel" "$packages"; done
ls -l "$packages"
if [ ${#debs[@]} -gt 0 ]; then
  if command -v lintian >/dev/null; then lintian --fail-on error,warning --tag-display-limit 0 "$packages"/*.deb || fail lintian; else echo "not checked: lintian is not installed"; fi
fi

if [ -n "$base" ]; then
  cp -a "$base" "$root"
else
  # Ubuntu's MPIs are in universe. Ubuntu's releases share one debootstrap script, which old debootstraps only have under names of
  # other releases.
  case $(awk -F, -v suite="$suite" '$3 == suite {print "ubuntu"}' /usr/share/distro-info/ubuntu.csv 2>/dev/null) in
    ubuntu) components=main,universe mirror=http://archive.ubuntu.com/ubuntu script=/usr/share/debootstrap/scripts/gutsy ;;
    *) components=main mirror=http://deb.debian.org/debian script='' ;;
  esac
  debootstrap --variant=minbase --components="$components" "$suite" "$root" "$mirror" ${script:+"$script"} >"$work/debootstrap.log" 2>&1 ||
    { tail -5 "$work/debootstrap.log"; echo "skipped: debootstrap gets nothing from $mirror"; exit; }
fi
cp /etc/resolv.conf "$root/etc"
enter() { # ROOT: where in_root works from now on
  root=$1
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mount --rbind /dev "$root/dev"
}
in_root() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    chroot "$root" bash -c "set -euo pipefail; $1"
}
apt() { in_root "apt-get -qy $1" >"$work/apt.log" 2>&1 || { tail -20 "$work/apt.log" >&2; fail "apt-get $1"; }; }
use() { # WEIR FAMILY: the command, alone and with 2 ranks
  local run="mpiexec.$2 -n 2 $1 bench"
  [ "$2" = mpich ] || run="mpiexec.$2 --oversubscribe --bind-to none -n 2 $1 bench"
  in_root "$1 info" | grep "^weir " >/dev/null || fail "$1 info"
  in_root "$run allreduce --count 10000 --iterations 2" | grep oktopk || fail "$1 bench allreduce with 2 ranks"
  in_root "$run checkpoint --iterations 2 --size 1000000 --folder /tmp" >"$work/checkpoint.log" 2>&1 || { cat "$work/checkpoint.log" >&2; fail "$1 bench checkpoint with 2 ranks"; }
}
family_of() { sed -n 's/^set(CPACK_PACKAGE_NAME "weir-\(.*\)")/\1/p' "$1/CPackConfig.cmake"; }

families=()
for build in "${debs[@]}"; do families+=("$(family_of "$build")"); done
if [ -n "$build_deb" ]; then
  cp -a "$root" "$work/builder"
  enter "$work/builder"
  mkdir "$root/source"
  mount -o bind,ro "$here/.." "$root/source"
  apt update
  apt "install --no-install-recommends g++ gfortran cmake ninja-build pkg-config python3 libopenmpi-dev openmpi-bin libhwloc-dev libhwy-dev libhdf5-dev \
    libjpeg-dev libtbb-dev libxxhash-dev zlib1g-dev libfmt-dev libcli11-dev nlohmann-json3-dev dpkg-dev file lintian"
  echo "-- building with $(in_root "g++ --version | head -1")"
  in_root "cmake -S /source -B /build -G Ninja -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF -DCMAKE_UNITY_BUILD=ON \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=OFF && cmake --build /build && cd /build && cpack -G DEB -B /packages" \
    >"$work/build.log" 2>&1 || { tail -40 "$work/build.log" >&2; fail "the build"; }
  echo "-- built, with $(grep -c ' warning: ' "$work/build.log" || true) warnings"
  in_root "lintian --allow-root --fail-on error,warning --tag-display-limit 0 /packages/*.deb" || fail lintian
  cp "$root"/packages/*.deb "$packages"
  families+=(openmpi)
fi
enter "$work/root"
cp "$packages"/* "$here/wheels/test.sh" "$root/root"
apt update
if [ ${#families[@]} -gt 0 ]; then
  apt "install --no-install-recommends /root/*.deb"
  for family in "${families[@]}"; do
    echo "-- .deb, $family"
    use "weir-$family" "$family"
    in_root "update-alternatives --set weir /usr/bin/weir-$family" >/dev/null
    [ "$(in_root "readlink -f /usr/bin/weir")" = "/usr/bin/weir-$family" ] || fail "/usr/bin/weir is not weir-$family"
  done
  apt "purge weir-common"
  apt "autoremove --purge"
  left=$(in_root "find /usr /etc -iname '*weir*'")
  [ -z "$left" ] || fail "left behind by the .deb: $left"
fi
for build in "${archives[@]}"; do
  family=$(family_of "$build")
  archive=$(ls "$packages/weir-$family"-*.tar.gz)
  echo "-- .tar.gz, $family"
  if [ "$family" = openmpi ]; then apt "install --no-install-recommends openmpi-bin"; else apt "install --no-install-recommends mpich"; fi
  in_root "mkdir /opt/$family && tar xf /root/$(basename "$archive") -C /opt/$family --strip-components=1"
  use "/opt/$family/bin/weir" "$family"
  for text in hdf5 libhwloc15 libhwy1 nlohmann-json3-dev; do
    [ -s "$root/opt/$family/share/doc/weir/licenses/$text.txt" ] || fail "the archive lacks the copyright text of $text"
  done
done
if [ ${#wheels[@]} -gt 0 ]; then
  apt "install --no-install-recommends python3-venv"
  certificates=''
  if [ -n "${PIP_CERT:-}" ]; then # for example those of a proxy
    cp -L "$PIP_CERT" "$root/root/certificates.pem"
    certificates=PIP_CERT=/root/certificates.pem
  fi
  in_root "cd /root && $certificates ./test.sh *.whl" || fail "the wheels, without an MPI of the system"
  for mpi in openmpi-bin mpich; do
    apt "install --no-install-recommends $mpi"
    in_root "cd /root && $certificates ./test.sh *.whl" || fail "the wheels, beside the package $mpi"
  done
fi
echo "clean root, $suite: ok"
