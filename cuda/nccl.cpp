#include "cuda/nccl.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "base/give_way.hpp"
#include "cuda/nccl_library.hpp"
#include "kernels/narrow.hpp"

namespace weir::cuda {
namespace {

constexpr int oldest = 22703;  // older ones have one job per thread for all nonblocking groups, and each overwrites the last
constexpr std::chrono::seconds longest_farewell{5};

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

const NcclFunctions& nccl() { return nccl_library().call; }
ncclComm_t native(void* comm) { return static_cast<ncclComm_t>(comm); }
cudaStream_t native_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

/// Throws for an error. An operation in progress is not an error.
void check(ncclResult_t result, const char* what) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  fail(WEIR_ERR_DEVICE, "{} failed: NCCL says '{}'; NCCL_DEBUG=WARN in the environment makes it say more", what,
       nccl().get_error_string(result));
}

ncclDataType_t native_type(DataType type) {
  switch (type) {
    case DataType::float64:
      return ncclFloat64;
    case DataType::float16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    default:
      return ncclFloat32;
  }
}

/// Restores the thread's GPU: ending a communicator may leave the communicator's GPU current.
class KeepDevice {
 public:
  KeepDevice() : known_(cudaGetDevice(&device_) == cudaSuccess) {}
  ~KeepDevice() {
    if (known_) cudaSetDevice(device_);
  }
  KeepDevice(const KeepDevice&) = delete;
  KeepDevice& operator=(const KeepDevice&) = delete;

 private:
  int device_ = 0;
  bool known_;
};

/// A sum of products with `factor`. May be destroyed as soon as it has been passed to NCCL.
class Sum {
 public:
  Sum(ncclComm_t comm, DataType type, double factor) : comm_(comm) {
    if (factor == 1) return;
    union {
      float float32;
      double float64;
      std::uint16_t bits;
    } scalar;
    switch (type) {
      case DataType::float64:
        scalar.float64 = factor;
        break;
      case DataType::float16:
        scalar.bits = narrow_to<float16>(static_cast<float>(factor)).bits;
        break;
      case DataType::bfloat16:
        scalar.bits = narrow_to<bfloat16>(static_cast<float>(factor)).bits;
        break;
      default:
        scalar.float32 = static_cast<float>(factor);
    }
    check(nccl().red_op_create_pre_mul_sum(&op_, &scalar, native_type(type), ncclScalarHostImmediate, comm), "making a reduction");
  }
  ~Sum() {
    if (op_ != ncclSum) nccl().red_op_destroy(op_, comm_);
  }
  Sum(const Sum&) = delete;
  Sum& operator=(const Sum&) = delete;
  [[nodiscard]] ncclRedOp_t op() const { return op_; }

 private:
  ncclComm_t comm_;
  ncclRedOp_t op_ = ncclSum;
};

/// Makes several calls as one operation.
template <class Calls>
void as_group(const char* what, Calls calls) {
  check(nccl().group_start(), what);
  try {
    calls();
  } catch (...) {
    nccl().group_end();
    throw;
  }
  check(nccl().group_end(), what);
}

/// Returns whether all ranks have a part, and all parts are equally large.
bool is_even(NcclCommunicator::Bounds bounds, int size) {
  if (static_cast<int>(bounds.size()) != size + 1) return false;
  for (std::size_t i = 2; i < bounds.size(); ++i) {
    if (bounds[i] - bounds[i - 1] != bounds[1] - bounds[0]) return false;
  }
  return true;
}

/// Calls f(rank, first element, elements) for each part that is not empty.
template <class F>
void for_parts(NcclCommunicator::Bounds bounds, F f) {
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    if (bounds[i] < bounds[i + 1]) f(static_cast<int>(i), bounds[i], static_cast<std::size_t>(bounds[i + 1] - bounds[i]));
  }
}

std::int64_t bytes_of(DataType type) { return type == DataType::float64 ? 8 : type == DataType::float32 ? 4 : 2; }
std::byte* element(void* data, std::int64_t index, DataType type) { return static_cast<std::byte*>(data) + index * bytes_of(type); }
const std::byte* element(const void* data, std::int64_t index, DataType type) {
  return static_cast<const std::byte*>(data) + index * bytes_of(type);
}

}  // namespace

std::string nccl_version_text(int version) { return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100); }

std::string reason_without_nccl(const char* load_error, int version) {
  if (load_error != nullptr) return fmt::format("libnccl.so.2 cannot be loaded: {}: install libnccl2", load_error);
  if (version == 0) return "libnccl.so.2 does not say which version it is: install libnccl2 anew";
  if (version >= oldest) return "";
  return fmt::format(
      "NCCL {} is too old: {} is needed, the first whose nonblocking communicators can be used by several plans of one thread",
      nccl_version_text(version), nccl_version_text(oldest));
}

std::string why_no_nccl() { return nccl_library().why_not; }
int nccl_version() { return nccl_library().version; }

NcclId make_nccl_id() {
  ncclUniqueId id;
  check(nccl().get_unique_id(&id), "making an id for a communicator");
  return std::bit_cast<NcclId>(id);
}

NcclCommunicator::NcclCommunicator(const NcclId& id, int rank, int size) : rank_(rank), size_(size) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = nccl().comm_init_rank_config(&comm, size, std::bit_cast<ncclUniqueId>(id), rank, &config);
  comm_ = comm;
  try {
    check(result, "connecting GPUs");
  } catch (const Error&) {
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (comm_ == nullptr) return;
  const KeepDevice keep;
  // A peer may still read what this rank's last operation has left in NCCL's buffers.
  ncclResult_t state = nccl().comm_finalize(native(comm_));
  const auto begin = std::chrono::steady_clock::now();
  while (state == ncclInProgress && std::chrono::steady_clock::now() - begin < longest_farewell) {
    give_way();
    if (nccl().comm_get_async_error(native(comm_), &state) != ncclSuccess) state = ncclInternalError;
  }
  if (state == ncclSuccess)
    nccl().comm_destroy(native(comm_));
  else
    abort();
}

bool NcclCommunicator::reached() {
  if (comm_ == nullptr) fail(WEIR_ERR_DEVICE, "NCCL's communicator was aborted after an error");
  ncclResult_t state = ncclSuccess;
  check(nccl().comm_get_async_error(native(comm_), &state), "asking NCCL for errors");
  check(state, "an exchange between GPUs");
  return state == ncclSuccess;
}

void NcclCommunicator::abort() noexcept {
  const KeepDevice keep;
  if (void* const comm = std::exchange(comm_, nullptr); comm != nullptr) nccl().comm_abort(native(comm));
}

void NcclCommunicator::abort_all(std::span<const std::unique_ptr<NcclCommunicator>> communicators) noexcept {
  if (std::all_of(communicators.begin(), communicators.end(), [](const auto& one) { return !one || one->comm_ == nullptr; }))
    return;
  const KeepDevice keep;
  nccl().group_start();
  for (const auto& one : communicators) {
    if (one) one->abort();
  }
  nccl().group_end();
}

void NcclCommunicator::allreduce(void* data, std::int64_t count, DataType type, double factor, void* stream) {
  if (count == 0) return;
  const Sum sum(native(comm_), type, factor);
  check(nccl().all_reduce(data, data, static_cast<std::size_t>(count), native_type(type), sum.op(), native(comm_),
                          native_stream(stream)),
        "NCCL's allreduce");
}

void NcclCommunicator::reduce_scatter(const void* data, void* part, Bounds bounds, DataType type, double factor, void* stream) {
  constexpr const char* what = "NCCL's reduce-scatter";
  if (bounds.front() == bounds.back()) return;
  const Sum sum(native(comm_), type, factor);
  if (is_even(bounds, size_)) {
    check(nccl().reduce_scatter(data, part, static_cast<std::size_t>(bounds[1] - bounds[0]), native_type(type), sum.op(),
                                native(comm_), native_stream(stream)),
          what);
    return;
  }
  as_group(what, [&] {
    for_parts(bounds, [&](int owner, std::int64_t first, std::size_t count) {
      check(nccl().reduce(element(data, first, type), owner == rank_ ? part : nullptr, count, native_type(type), sum.op(), owner,
                          native(comm_), native_stream(stream)),
            what);
    });
  });
}

void NcclCommunicator::allgather(void* data, Bounds bounds, DataType type, void* stream) {
  constexpr const char* what = "NCCL's allgather";
  if (bounds.front() == bounds.back()) return;
  if (is_even(bounds, size_)) {
    check(
        nccl().all_gather(element(data, bounds[static_cast<std::size_t>(rank_)], type), data,
                          static_cast<std::size_t>(bounds[1] - bounds[0]), native_type(type), native(comm_), native_stream(stream)),
        what);
    return;
  }
  as_group(what, [&] {
    for_parts(bounds, [&](int owner, std::int64_t first, std::size_t count) {
      void* const place = element(data, first, type);
      check(nccl().broadcast(place, place, count, native_type(type), owner, native(comm_), native_stream(stream)), what);
    });
  });
}

}  // namespace weir::cuda
