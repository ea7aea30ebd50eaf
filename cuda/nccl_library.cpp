#include "cuda/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "cuda/nccl.hpp"

namespace weir::cuda {
namespace {

constexpr const char* file_name = "libnccl.so.2";

class Loader {
 public:
  explicit Loader(void* handle) : handle_(handle) {}
  template <class F>
  void bind(F& function, const char* name) {
    function = reinterpret_cast<F>(dlsym(handle_, name));
    if (function == nullptr && missing.empty()) missing = name;
  }
  std::string missing;

 private:
  void* handle_;
};

/// Loads the library. It stays loaded, because communicators may outlive the caller that first asked for it.
NcclLibrary load() {
  NcclLibrary library;
  void* const handle = dlopen(file_name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    library.why_not = reason_without_nccl(dlerror(), 0);
    return library;
  }
  Loader loader(handle);
  decltype(&ncclGetVersion) get_version = nullptr;
  loader.bind(get_version, "ncclGetVersion");
  if (get_version == nullptr || get_version(&library.version) != ncclSuccess) library.version = 0;
  library.why_not = reason_without_nccl(nullptr, library.version);
  if (!library.why_not.empty()) return library;
  NcclFunctions& f = library.call;
  loader.bind(f.get_error_string, "ncclGetErrorString");
  loader.bind(f.get_unique_id, "ncclGetUniqueId");
  loader.bind(f.comm_init_rank_config, "ncclCommInitRankConfig");
  loader.bind(f.comm_get_async_error, "ncclCommGetAsyncError");
  loader.bind(f.comm_finalize, "ncclCommFinalize");
  loader.bind(f.comm_destroy, "ncclCommDestroy");
  loader.bind(f.comm_abort, "ncclCommAbort");
  loader.bind(f.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
  loader.bind(f.red_op_destroy, "ncclRedOpDestroy");
  loader.bind(f.group_start, "ncclGroupStart");
  loader.bind(f.group_end, "ncclGroupEnd");
  loader.bind(f.all_reduce, "ncclAllReduce");
  loader.bind(f.reduce_scatter, "ncclReduceScatter");
  loader.bind(f.reduce, "ncclReduce");
  loader.bind(f.all_gather, "ncclAllGather");
  loader.bind(f.broadcast, "ncclBroadcast");
  if (!loader.missing.empty()) library.why_not = fmt::format("{} has no {}: install libnccl2 anew", file_name, loader.missing);
  return library;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace weir::cuda
