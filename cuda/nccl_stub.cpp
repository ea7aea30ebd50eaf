// Replaces nccl.cpp in a build without NCCL, and says so.
#include "base/error.hpp"
#include "cuda/nccl.hpp"

namespace weir::cuda {

std::string why_no_nccl() {
  return "this build of Weir has no NCCL: configure it with -DWEIR_WITH_NCCL=ON, CUDA, and the headers of NCCL 2.18 or later";
}

namespace {
[[noreturn]] void refuse_nccl() { fail(WEIR_ERR_UNSUPPORTED, "{}", why_no_nccl()); }
}  // namespace

int nccl_version() { return 0; }
std::string nccl_version_text(int) { return {}; }
NcclId make_nccl_id() { refuse_nccl(); }
NcclCommunicator::NcclCommunicator(const NcclId&, int rank, int size) : rank_(rank), size_(size) { refuse_nccl(); }
NcclCommunicator::~NcclCommunicator() = default;
bool NcclCommunicator::reached() { refuse_nccl(); }
void NcclCommunicator::abort() noexcept {
  comm_ = nullptr;
  rank_ = size_ = 0;
}
void NcclCommunicator::abort_all(std::span<const std::unique_ptr<NcclCommunicator>>) noexcept {}
void NcclCommunicator::allreduce(void*, std::int64_t, DataType, double, void*) { refuse_nccl(); }
void NcclCommunicator::reduce_scatter(const void*, void*, Bounds, DataType, double, void*) { refuse_nccl(); }
void NcclCommunicator::allgather(void*, Bounds, DataType, void*) { refuse_nccl(); }

}  // namespace weir::cuda
