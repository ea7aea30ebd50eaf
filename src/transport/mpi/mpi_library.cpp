#include "transport/mpi/mpi_library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "base/error.hpp"
#include "bootstrap/launch.hpp"

namespace weir {
namespace {

using GetLibraryVersion = int (*)(char*, int*);

/// MPICH writes up to 8192 characters, even if Weir was compiled with Open MPI, whose limit is 256.
std::string version_by(GetLibraryVersion get) {
  std::string text(16384, '\0');
  int length = 0;
  get(text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  return text;
}

int note_mpi_library(dl_phdr_info* object, std::size_t, void* found) {
  const std::string_view path = object->dlpi_name;
  if (path.substr(path.rfind('/') + 1).starts_with("libmpi")) static_cast<std::vector<std::string>*>(found)->emplace_back(path);
  return 0;
}

/// Returns the versions of all MPI libraries that are loaded, also of those that this library's symbols do not resolve to, for
/// example if Python has loaded a module with an MPI of its own.
std::vector<std::string> loaded_library_versions() {
  std::vector<std::string> paths, versions;
  dl_iterate_phdr(note_mpi_library, &paths);
  for (const std::string& path : paths) {
    const std::unique_ptr<void, int (*)(void*)> library(dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD), dlclose);
    if (library == nullptr) continue;
    const auto get = reinterpret_cast<GetLibraryVersion>(dlsym(library.get(), "MPI_Get_library_version"));
    if (get != nullptr) versions.push_back(version_by(get));
  }
  return versions;
}

#ifdef OPEN_MPI
/// Returns whether Open MPI has a setting of this name. It has those of the parts that it has loaded and found usable.
bool has_setting(const char* name) {
  int index = -1;
  return MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS;
}

/// Returns the value of a setting that counts bytes; 0 if there is no such setting.
std::size_t bytes_of_setting(const char* name) {
  int index = -1, count = 0;
  MPI_T_cvar_handle handle{};
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return 0;
  int verbosity = 0, binding = 0, scope = 0, no_name = 0, no_text = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_cvar_get_info(index, nullptr, &no_name, &verbosity, &type, nullptr, nullptr, &no_text, &binding, &scope);
  if (type != MPI_UNSIGNED_LONG || MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return 0;
  unsigned long value = 0;
  const bool read = count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  return read ? value : 0;
}

/// Returns the bytes up to which Open MPI sends a message over TCP at once, header included; 0 if it has another way to other
/// nodes.
std::size_t find_tcp_limit() {
  int level = 0;
  MPI_Query_thread(&level);  // Open MPI takes over whatever MPI_T is given
  if (MPI_T_init_thread(level, &level) != MPI_SUCCESS) return 0;
  constexpr std::array preferred = {"btl_openib_eager_limit", "btl_usnic_eager_limit", "btl_ugni_eager_limit"};
  const bool tcp = has_setting("pml_ob1_priority") && std::none_of(preferred.begin(), preferred.end(), has_setting);
  const std::size_t limit = tcp ? bytes_of_setting("btl_tcp_eager_limit") : 0;
  MPI_T_finalize();
  return limit;
}
#else
std::size_t find_tcp_limit() { return 0; }
#endif

std::string_view library_of(std::string_view family) { return family == "MPICH" ? "libweir-mpich" : "libweir-openmpi"; }

void refuse_other_family(std::string_view library_version) {
  const std::string_view family = mpi_family_of(library_version);
  if (family.empty() || family == mpi_family()) return;
  fail(WEIR_ERR_UNSUPPORTED,
       "this is {}, built for {}, and the program runs on {}: load {} instead, the Weir that was built for {}",
       library_of(mpi_family()), mpi_family(), mpi_library_name(library_version), library_of(family), family);
}

/// The environment variable in which a launcher gives the number of processes that it starts.
struct Launcher {
  std::string_view family;
  const char* variable;
};
constexpr std::array launchers = {Launcher{"Open MPI", "OMPI_COMM_WORLD_SIZE"}, Launcher{"MPICH", "PMI_SIZE"}};

}  // namespace

std::string_view mpi_family_of(std::string_view library_version) {
  const auto says = [library_version](std::string_view name) { return library_version.find(name) != std::string_view::npos; };
  constexpr std::array open_mpi = {"Open MPI", "Spectrum MPI"};
  constexpr std::array mpich = {"MPICH", "Intel(R) MPI", "MVAPICH"};
  if (std::any_of(open_mpi.begin(), open_mpi.end(), says)) return "Open MPI";
  if (std::any_of(mpich.begin(), mpich.end(), says)) return "MPICH";
  return "";
}

std::string_view mpi_family() {
#ifdef OPEN_MPI
  return "Open MPI";
#else
  return "MPICH";
#endif
}

std::string detail::mpi_library_version() { return version_by(MPI_Get_library_version); }

std::string mpi_library_name(std::string_view library_version) {
  std::istringstream words{std::string(library_version.substr(0, library_version.find_first_of(",\n")))};
  std::string name, word;
  while (words >> word) name += (name.empty() ? "" : " ") + word;
  return name;
}

void detail::check_mpi_library() {
  refuse_other_family(mpi_library_version());
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized) return;
  for (const std::string& version : loaded_library_versions()) refuse_other_family(version);
}

bool sends_at_once_over_tcp(std::int64_t bytes) {
  constexpr std::size_t header = 1024;  // more than Open MPI's
  static const std::size_t limit = find_tcp_limit();
  return limit >= static_cast<std::size_t>(bytes) + header;
}

std::string other_launcher() {
  // If Weir's own launcher is among them, it started this process, and the other one started that launcher.
  for (const Launcher& launcher : launchers) {
    if (mpi_family() == launcher.family && std::getenv(launcher.variable) != nullptr) return "";
  }
  for (const Launcher& launcher : launchers) {
    const char* const started = std::getenv(launcher.variable);
    if (started == nullptr || std::string_view(started) == "1") continue;
    return fmt::format(
        "this is {}, built for {}, and {}'s launcher has started this process as one of {}: start the program with {}'s launcher, "
        "or use {}; a program that is to run alone starts without {} in its environment",
        library_of(mpi_family()), mpi_family(), launcher.family, started, mpi_family(), library_of(launcher.family),
        launcher.variable);
  }
  return "";
}

void refuse_other_launcher() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > 1) return;
  if (const std::string other = other_launcher(); !other.empty()) fail(WEIR_ERR_UNSUPPORTED, "{}", other);
  const bootstrap::Launch launch = bootstrap::read_launch();
  if (launch.starter == bootstrap::Starter::variables) {
    fail(
        WEIR_ERR_UNSUPPORTED,
        "RANK and WORLD_SIZE say that this is rank {} of {}, and MPI was initialised before Weir, for this process alone: make the "
        "Weir communicator, or call weir_init, before MPI_Init or mpi4py; a program that is to run alone starts without WORLD_SIZE",
        launch.rank, launch.size);
  }
}

}  // namespace weir
