# common.sh: functions that the job scripts share: options, the site, modules, checks, starting ranks. They source this file.
# shellcheck shell=bash disable=SC2154,SC2034

# fail MESSAGE: ends the job. All checks run before the first output, so the message is the first line of the job's output. Because
# of the exit status, SLURM does not start jobs that depend on this one (afterok).
fail() {
  echo "$script: error: $*"
  exit 1
}

# The job's id for SLURM's commands. In a task of an array, SLURM_JOB_ID alone could mean the whole array.
job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
job=${job:-${SLURM_JOB_ID:-}}

# Prints the comment at the head of the job script.
usage() { sed -n '/^#SBATCH/d; 2,/^script=/ { s/^# \{0,1\}//p; }' "$folder/$script"; }

# value OPTION REST...: checks that the option has a value.
value() { [ $# -ge 2 ] || fail "$1 needs a value; $folder/README.md lists the options"; }

# read_options OPTIONS...: reads --site, --module, --weir and --results, up to "--". Leaves all others in `rest`.
site='' weir='' results=results modules=() rest=()
read_options() {
  while [ $# -gt 0 ]; do
    case $1 in
      --site) value "$@"; site=$2; shift ;;
      --module) value "$@"; modules+=("$2"); shift ;;
      --weir) value "$@"; weir=$2; shift ;;
      --results) value "$@"; results=$2; shift ;;
      -h | --help) usage && exit 0 ;;
      --) rest+=("$@"); return ;;
      *) rest+=("$1") ;;
    esac
    shift
  done
}

sites() { (cd "$folder/sites" && ls) | sed 's/\.sh$//' | paste -sd ' '; }

# Prints the MPI of a weir command, openmpi or mpich. Reads it from the command's name, without starting it.
family_of_weir() {
  local real
  real=$(readlink -f "$(command -v "$1")")
  echo "${real##*weir-}"
}

find_weir() {
  local candidate
  for candidate in "$weir" "$folder/../../../bin/weir-${site_mpi:-none}" "$folder/../../../bin/weir" "weir-${site_mpi:-none}" weir; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null; then
      weir=$(command -v "$candidate")
      return
    fi
    [ -z "$weir" ] || fail "--weir $weir is no program: give the path of the weir command"
  done
  fail "there is no weir command here: load its module (--module weir/VERSION-MPI), or give --weir PATH"
}

# Loads the site: the one given, or the one that lists this cluster's name, or the generic one for the command's MPI.
load_site() {
  local file
  if [ -z "$site" ] && [ -n "${SLURM_CLUSTER_NAME:-}" ]; then
    file=$(grep -lsE "^site_clusters=.*[\"' ]${SLURM_CLUSTER_NAME}[\"' ]" "$folder"/sites/*.sh | head -1)
    site=$(basename "${file%.sh}")
  fi
  if [ -z "$site" ]; then
    find_weir
    site=generic-$(family_of_weir "$weir")
  fi
  case $site in
    */*) file=$site ;;
    *) file=$folder/sites/$site.sh ;;
  esac
  [ -r "$file" ] || fail "there is no site '$site': choose one of $(sites), or give the path of a site file of your own"
  site_mpi='' site_modules=() site_launcher=(srun) site_scratch=''
  # shellcheck source=sites/generic-openmpi.sh disable=SC1091
  source "$file"
}

load_modules() {
  local name init problem
  modules=(${site_modules[@]+"${site_modules[@]}"} ${modules[@]+"${modules[@]}"})
  [ ${#modules[@]} -gt 0 ] || return 0
  for init in "${LMOD_PKG:-/nonexistent}/init/bash" "${MODULESHOME:-/nonexistent}/init/bash" /etc/profile.d/lmod.sh /etc/profile.d/modules.sh; do
    # shellcheck disable=SC1090
    if ! command -v module >/dev/null && [ -r "$init" ]; then source "$init" >/dev/null 2>&1; fi
  done
  command -v module >/dev/null || fail "site $site needs the modules ${modules[*]}, but there is no module command on this node: give --site FILE with site_modules=()"
  problem=$(mktemp)
  for name in "${modules[@]}"; do
    # Old module commands return status 0 even if they fail.
    if ! module load "$name" >"$problem" 2>&1 || [[ :${LOADEDMODULES:-}: != *:"$name"[:/]* ]]; then
      fail "module $name cannot be loaded: see 'module avail' for its name on $site, and change sites/$site.sh or --module. $(tr -s ' \n' ' ' <"$problem")"
    fi
  done
  rm -f "$problem"
}

# check_mpi PROGRAM: refuses a program that is linked to another MPI than the site's, or to missing libraries.
check_mpi() {
  local linked missing built
  linked=$(ldd "$1" 2>/dev/null) || return 0 # a script, or static
  missing=$(awk '/not found/ {print $1; exit}' <<<"$linked")
  [ -z "$missing" ] || fail "$1 needs $missing, which is not found on $(hostname): load its module with --module NAME"
  case $linked in
    *libmpi.so.40* | *libmpi.so.[23]0*) built=openmpi ;;
    *libmpi*.so.12* | *libmpich*.so*) built=mpich ;;
    *) return 0 ;;
  esac
  [ -z "$site_mpi" ] || [ "$built" = "$site_mpi" ] ||
    fail "$1 was built for $built, but site $site has $site_mpi: build it with that MPI's compiler, or choose another --site ($(sites))"
}

check_ranks() { # AT_LEAST
  [ -n "${SLURM_JOB_ID:-}" ] || fail "no SLURM job: submit it with sbatch or $folder/submit"
  nodes=${SLURM_JOB_NUM_NODES:-1}
  ranks=${SLURM_NTASKS:-$((nodes * ${SLURM_NTASKS_PER_NODE:-1}))}
  [ "$ranks" -ge "$1" ] || fail "the job has $ranks ranks on $nodes nodes, but it takes at least $1: sbatch --nodes N --ntasks-per-node R"
}

# prepare AT_LEAST: does all of the above, makes the folder for results, and sets `launch`, which starts the ranks of the job.
prepare() {
  load_site
  load_modules
  [ "${script%python.sbatch}" != "$script" ] || { find_weir; check_mpi "$weir"; }
  check_ranks "$1"
  if ! mkdir -p "$results" 2>/dev/null || [ ! -w "$results" ]; then fail "the folder for results, $results, cannot be written: give --results FOLDER"; fi
  command -v "${site_launcher[0]}" >/dev/null || fail "site $site starts ranks by ${site_launcher[0]}, which is not on this node: load its module, or change sites/$site.sh"
  if declare -F site_environment >/dev/null; then site_environment; fi
  launch=("${site_launcher[@]}" -n "$ranks")
}
