// Replaces device_rows.cpp in a build without CUDA.
#include "base/error.hpp"
#include "cuda/runtime.hpp"
#include "embedding/row_space.hpp"

namespace weir::embedding {

std::unique_ptr<RowSpace> make_device_rows(std::int64_t) {
  fail(WEIR_ERR_UNSUPPORTED, "a table in CUDA memory cannot be made here: {}", cuda::why_unusable());
}

}  // namespace weir::embedding
