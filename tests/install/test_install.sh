#!/bin/bash
# Installs the build tree $1 into a fresh prefix, moves it, and uses it as a new user would: projects in C, C++ and Fortran outside
# this tree, the examples' own CMakeLists, the command, completion and module. $2 is the source tree.
set -euo pipefail
build=$1 source=$2
here=$source/tests/install
# shellcheck source=../support/thinning.sh
source "$here/../support/thinning.sh"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mpi=$(sed -n 's/^MPI_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
family=$(readlink "$build/bin/weir"); family=${family#weir-}
fail() { echo "test_install: $*" >&2; exit 1; }
library_folder() { dirname "$(find "$1" -name 'libweir-*.so' -o -name 'libweir-*.a' | head -1)"; }
one_line() { tr -s ' \n' ' '; }

pkg_config_consumers() { # PREFIX LANGUAGE...: the lines of docs/building.md for C and C++
  local libdir line
  libdir=$(library_folder "$1")
  if ! command -v pkg-config >/dev/null || [ ! -e "$libdir/libweir-$family.so" ]; then return; fi
  if [[ " ${*:2} " == *" c "* ]]; then
    cp "$here/c/main.c" "$work/my_code.c"
    line=$(grep -m1 "^    mpicc my_code.c " "$source/docs/building.md")
    (cd "$work" && PKG_CONFIG_PATH=$libdir/pkgconfig eval "${line/mpicc/$mpi}")
    [ "$("$work/my_code")" = "1 rank" ] || fail "the C program with $1 said something else"
  fi
  if [[ " ${*:2} " == *" cxx "* ]]; then
    cp "$here/cxx/main.cpp" "$work/my_code.cpp"
    line=$(grep -m1 "^    mpicxx -std=c++20 my_code.cpp " "$source/docs/building.md")
    (cd "$work" && PKG_CONFIG_PATH=$libdir/pkgconfig eval "${line/mpicxx/${mpi/mpicc/mpicxx}}")
    [[ $("$work/my_code") == "10 entries; "* ]] || fail "the C++ program with $1 said something else"
  fi
  if [[ " ${*:2} " == *" fortran "* && -e $libdir/pkgconfig/weir_fortran-$family.pc ]]; then
    cp "$here/fortran/main.f90" "$work/my_code.f90"
    line=$(grep -m1 "^    mpifort my_code.f90 " "$source/docs/building.md")
    (cd "$work" && PKG_CONFIG_PATH=$libdir/pkgconfig eval "${line/mpifort/${mpi/mpicc/mpifort}}")
    [[ $("$work/my_code") == *"10 entries"* ]] || fail "the Fortran program with $1 said something else"
  fi
  echo "pkg-config: ${*:2}: ok"
}

static_consumer() { # what a static library needs besides, by pkg-config: the library is made of this build's objects
  local tree=$work/static objects
  cmake -S "$source" -B "$work/static_build" -DMPI_C_COMPILER="$mpi" -DWEIR_WITH_CUDA=OFF -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_LIBDIR=lib >"$work/log" 2>&1 || { cat "$work/log"; fail "configuring a static build"; }
  cmake --install "$work/static_build" --component pkgconfig --prefix "$tree" >/dev/null
  cp -r "$source/include" "$tree/include"
  mapfile -t objects < <(find "$build/src" "$build/capi" "$build/cuda" -name '*.o' -path '*/weir_*objects.dir/*' ! -path '*/weir_cli_objects.dir/*' ! -path '*/weir_cuda_objects.dir/*')
  ar rcs "$tree/lib/libweir-$family.a" "${objects[@]}"
  cp "$here/c/main.c" "$work/my_code.c"
  (cd "$work" && export PKG_CONFIG_PATH=$tree/lib/pkgconfig && eval "$mpi my_code.c $(pkg-config --static --cflags --libs "weir-$family") -o my_static_code") ||
    fail "a static library cannot be linked by $(PKG_CONFIG_PATH=$tree/lib/pkgconfig pkg-config --static --libs "weir-$family")"
  [ "$("$work/my_static_code")" = "1 rank" ] || fail "the C program with a static library said something else"
  echo "pkg-config --static: ok"
}

cmake_consumer() { # LANGUAGE EXPECTED: a project of that folder
  cp -r "$here/$1" "$work/$1"
  cmake -S "$work/$1" -B "$work/$1/build" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpi" >"$work/log" 2>&1 || { cat "$work/log"; fail "find_package: $1"; }
  cmake --build "$work/$1/build" >"$work/log" 2>&1 || { cat "$work/log"; fail "building: $1"; }
  out=$("$work/$1/build/my_code")
  # shellcheck disable=SC2053
  [[ $out == $2 ]] || fail "the program in $1 said: $out"
  echo "find_package, $1: $out"
}

find_package_says() { # TEXT LINE [CMAKE_ARGS...]: a project with this find_package is refused with this text
  local text=$1 line=$2 out
  shift 2
  rm -rf "$work/refused"
  mkdir "$work/refused"
  printf 'cmake_minimum_required(VERSION 3.22)\nproject(refused C)\n%s\n' "$line" >"$work/refused/CMakeLists.txt"
  if out=$(cmake -S "$work/refused" -B "$work/refused/build" -DCMAKE_PREFIX_PATH="$prefix" "$@" 2>&1); then fail "accepted: $line $*"; fi
  # shellcheck disable=SC2053
  [[ $(one_line <<<"$out") == *$text* ]] || fail "of '$line $*' it says: $out"
}

# All checks except the first use the moved tree.
cmake --install "$build" --prefix "$work/first" >/dev/null
mapfile -t languages < <(in_turn_of c cxx fortran)
pkg_config_consumers "$work/first" "${languages[@]}"
prefix=$work/prefix
mv "$work/first" "$prefix"
mapfile -t languages < <(in_turn_of fortran c cxx)
pkg_config_consumers "$prefix" "${languages[@]}"
libdir=$(library_folder "$prefix")

cmake_consumer c "1 rank"
cmake_consumer cxx "10 entries; *count is -1*"
components=$(sed -n 's/^set(weir_components \(.*\))$/\1/p' "$(find "$prefix" -path "*/weir/$family/build.cmake")")
if [[ $components == *Fortran* ]]; then cmake_consumer fortran "10 entries"; else echo "skipped: no Fortran in this build"; fi
for component in Fortran Python CUDA; do
  if [[ $components == *$component* ]]; then continue; fi
  find_package_says "this Weir was built without $component: build it with " "find_package(weir REQUIRED COMPONENTS C $component)" -DMPI_C_COMPILER="$mpi"
done
find_package_says "Weir has no component 'Rust': there are C, CXX, Fortran, Python and CUDA" "find_package(weir REQUIRED COMPONENTS Rust)" -DMPI_C_COMPILER="$mpi"
echo "components: ok ($components)"

other_mpi=mpicc.mpich
[ "$family" = openmpi ] || other_mpi=mpicc.openmpi
if command -v $other_mpi >/dev/null; then
  find_package_says "this Weir was built with *, and this project's MPI is *: choose the same for both" "find_package(weir REQUIRED)" -DMPI_C_COMPILER=$other_mpi
  echo "another MPI: refused"
fi

for example in $(in_turn_of "$source"/examples/[0-9]*/CMakeLists.txt); do
  example=$(dirname "$example")
  name=$(basename "$example")
  if ! cmake -S "$example" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpi" -DCMAKE_BUILD_TYPE=None \
      -DCMAKE_CXX_FLAGS=-O0 -DCMAKE_UNITY_BUILD=ON >"$work/$name.log" 2>&1; then
    grep "Missing Debian packages" "$work/$name.log" || { cat "$work/$name.log"; exit 1; }
    continue
  fi
  cmake --build "$work/$name" --parallel 2 >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; exit 1; }
  echo "$name: built alone"
done

layout() { # LIBDIR TREE THERE: with this CMAKE_INSTALL_LIBDIR, installed into $work/tree and moved to TREE, libraries are THERE
  local found dir
  rm -rf "$work/other" "$work/tree" "$work/moved"
  cmake -S "$source" -B "$work/other" -DMPI_C_COMPILER="$mpi" -DWEIR_WITH_CUDA=OFF -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF \
    -DCMAKE_INSTALL_LIBDIR="$1" >/dev/null
  cmake --install "$work/other" --component pkgconfig --prefix "$work/tree" >/dev/null
  mkdir -p "$work/tree/include"
  [ "$2" = "$work/tree" ] || mv "$work/tree" "$2"
  found=$(for dir in libdir includedir; do realpath "$(PKG_CONFIG_PATH=$3/pkgconfig pkg-config --variable=$dir "weir-$family")"; done)
  [ "$found" = "$3"$'\n'"$2/include" ] || fail "CMAKE_INSTALL_LIBDIR=$1: weir-$family.pc says $found"
}
if command -v pkg-config >/dev/null; then
  if in_turn 0 3; then layout lib/some-triplet "$work/moved" "$work/moved/lib/some-triplet"; fi
  if in_turn 1 3; then layout "$work/tree/lib64" "$work/moved" "$work/moved/lib64"; fi
  if in_turn 2 3; then layout "$work/elsewhere/lib" "$work/tree" "$work/elsewhere/lib"; fi
  echo "pkg-config of other layouts: ok"
  if in_turn 1 4 && [ -d "$build/src" ]; then static_consumer; fi
fi

# A project that includes this one keeps its own settings, and installs only its own files.
mkdir -p "$work/parent"
cat >"$work/parent/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(parent C CXX)
add_subdirectory($source weir)
file(WRITE \${CMAKE_CURRENT_BINARY_DIR}/own.c "int own(void) { return 1; }\n")
add_library(own \${CMAKE_CURRENT_BINARY_DIR}/own.c)
get_target_property(type own TYPE)
message(STATUS "own is \${type}, built '\${CMAKE_BUILD_TYPE}'")
install(TARGETS own)
END
log=$work/parent.log
cmake -S "$work/parent" -B "$work/parent/build" -DMPI_C_COMPILER="$mpi" -DWEIR_WITH_CUDA=OFF >"$log" 2>&1 || { cat "$log"; fail "as part of another project"; }
grep "own is STATIC_LIBRARY, built ''" "$log" >/dev/null || { cat "$log"; fail "a project that has this one as a part is another one"; }
if grep -E "^(BUILD_SHARED_LIBS|CMAKE_INSTALL_RPATH_USE_LINK_PATH)" "$work/parent/build/CMakeCache.txt"; then fail "options of another project"; fi
cmake --build "$work/parent/build" --target own >"$log" || { cat "$log"; fail "building another project"; }
cmake --install "$work/parent/build" --prefix "$work/parent/tree" >"$log" 2>&1 || { cat "$log"; fail "installing another project"; }
[ "$(cd "$work/parent/tree" && find . -type f | one_line)" = "./lib/libown.a " ] || fail "another project installs $(find "$work/parent/tree" -type f)"
echo "as part of another project: ok"

"$prefix/bin/weir" info | grep "^weir " >/dev/null || fail "the installed command does not work"
readelf -d "$prefix/bin/weir" | grep "RUNPATH.*\[\$ORIGIN/\.\./lib" >/dev/null || fail "bin/weir does not look for libraries in ../lib"
for page in man1/weir.1 man3/weir.3; do [ -s "$prefix/share/man/$page" ] || fail "no manual page $page"; done
doc=$prefix/share/doc/weir
for file in README.md docs/start-here.md docs/reference.md docs/which-algorithm.svg capi/fortran/README.md capi/python/README.md include/README.md \
  examples/01_fashion_mnist/main.cpp examples/start_here/start_here.c examples/start_here/start_here.f90 examples/start_here/start_here.py; do
  [ -s "$doc/$file" ] || fail "$file is not installed"
done
while IFS= read -r page; do
  while IFS= read -r target; do
    [ -e "$(dirname "$page")/$target" ] || fail "the installed ${page#"$doc/"} links to $target, which is not installed"
  done < <(grep -oE '\]\([A-Za-z0-9_./-]+' "$page" | cut -c 3- | grep '[./]')
done < <(find "$doc" -name '*.md')
echo "installed command: ok"

"$prefix/bin/weir" bench fusion --shrink 1000 --scheme none --iterations 1 --warmup 0 | grep "^resnet50: 161 tensors" >/dev/null || fail "the installed command finds no tables of networks"
echo "tables of networks: ok"

slurm=$prefix/share/weir/slurm
[ "$("$slurm/weir-bench.sbatch" --list --algorithms oktopk --sizes 10,20)" = "oktopk 10 0.01"$'\n'"oktopk 20 0.01" ] || fail "the installed weir-bench.sbatch has no tasks"
for wrong in "--densities 2,-1" "--densities 0" "--sizes 99999999999" "--algorithms ," "--iterations -3"; do
  # shellcheck disable=SC2086
  if out=$("$slurm/weir-bench.sbatch" --list $wrong); then fail "weir-bench.sbatch takes $wrong: $out"; fi
  [[ $out == *"error: ${wrong%% *} "* ]] || fail "weir-bench.sbatch does not say what is wrong with $wrong: $out"
done
[ "$("$slurm/weir-bench.sbatch" --list --algorithms oktopk --sizes 10 --densities 1,.5,1e-3 | wc -l)" = 3 ] || fail "the installed weir-bench.sbatch refuses densities"
for wrong in "--ranks-per-node 0" "--ranks-per-node -4" "--nodes 0,2"; do
  # shellcheck disable=SC2086
  if "$slurm/submit" test $wrong --dry-run >/dev/null 2>&1; then fail "slurm/submit takes $wrong"; fi
done
[[ $("$slurm/submit" --help) == *"bench, calibrate, python, test, train"* ]] || fail "the installed slurm/submit does not know its stages"
out=$(SLURM_JOB_ID=1 SLURM_NTASKS=1 "$slurm/weir-calibrate.sbatch" --results "$work/results" 2>&1) && fail "calibration of one rank: $out"
[[ $out == "weir-calibrate.sbatch: error: the job has 1 ranks on "* ]] || fail "the installed job scripts do not find the command: $out"
for site in "$slurm"/sites/*.sh; do
  # shellcheck disable=SC1090,SC2154
  [[ $(set +u; source "$site" && echo "$site_mpi ${site_launcher[0]}") =~ ^(openmpi|mpich)\ (srun|mpirun)$ ]] || fail "$site names no MPI or no launcher"
done
for site in cray-mpich perlmutter lumi alps frontier; do
  head -n 1 "$slurm/sites/$site.sh" | grep "Not run there" >/dev/null || fail "the first line of $site.sh does not say that it was not run there"
done
echo "job scripts: ok"

packages=$(dirname "$(dirname "$(find "$prefix" -name _abi.py)")")
for python in python3 /usr/bin/python3; do
  if [ -e "$libdir/libweir-$family.so" ] && $python -c "import numpy" 2>/dev/null; then
    out=$(cd "$work" && unset WEIR_LIBRARY && PYTHONPATH=$packages $python -m weir info) || fail "python -m weir info: $out"
    echo "Python package: ok"
    break
  fi
done

completions=$prefix/share/bash-completion/completions
# shellcheck disable=SC1090
if ! (. "$completions/weir-$family" && COMP_WORDS=(weir bench all) COMP_CWORD=2 && _weir && [ "${COMPREPLY[*]}" = allreduce ]); then
  fail "bash does not complete 'weir bench all'"
fi
if command -v zsh >/dev/null; then
  zsh -f -c "fpath=($prefix/share/zsh/site-functions \$fpath); autoload -Uz compinit; compinit -u -d $work/zcompdump; (( \$+_comps[weir-$family] )) && autoload +X _weir" ||
    fail "zsh does not take _weir"
  echo "completion for bash and zsh: ok"
else
  echo "completion for bash: ok; skipped: zsh is not installed"
fi

module=$(find "$prefix/share/modulefiles/weir" -name "*-$family")
if modulecmd=$(command -v modulecmd.tcl || compgen -G '/usr/lib/*/modulecmd.tcl' || compgen -G '/usr/share/modules/libexec/modulecmd.tcl'); then
  # shellcheck disable=SC1091
  (MODULEPATH=$prefix/share/modulefiles && export MODULEPATH && eval "$("$modulecmd" bash load "weir/$(basename "$module")")" &&
    [ "$(command -v weir)" = "$prefix/bin/weir" ] && [[ :$LD_LIBRARY_PATH: == *":$libdir:"* ]] &&
    { [ ! -d "$libdir/weir/fortran/$family" ] || [ "$WEIR_FORTRAN_MODULES" = "$libdir/weir/fortran/$family" ]; }) || fail "module load weir does not lead to $prefix"
  echo "environment module: ok"
else
  echo "skipped: no environment-modules"
fi
