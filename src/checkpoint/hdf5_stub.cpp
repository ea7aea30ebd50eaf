// Replaces hdf5_write.cpp and hdf5_read.cpp in a build without HDF5.
#include "base/error.hpp"
#include "checkpoint/hdf5_file.hpp"

namespace weir::checkpoint {
namespace {

[[noreturn]] void refuse() {
  fail(WEIR_ERR_UNSUPPORTED, "this build of Weir has no HDF5, which checkpoints need: build it with -DWEIR_WITH_HDF5=ON");
}

}  // namespace

void require_hdf5() { refuse(); }
std::string hdf5_version() { return "none"; }
Structure lay_out(Index& /*index*/) { refuse(); }
Index find_chunks(const std::string& /*path*/, bool /*record*/) { refuse(); }
Index read_structure(const std::string& /*path*/, const Structure& /*structure*/) { refuse(); }

}  // namespace weir::checkpoint
