// Replaces hdf5_source.cpp in a build without HDF5.
#include <weir/datacache.hpp>

#include "base/error.hpp"

namespace weir {

std::shared_ptr<SampleSource> hdf5_source(const std::string& path, const std::string& /*dataset*/, const std::string& /*labels*/) {
  fail(WEIR_ERR_UNSUPPORTED, "this build of Weir has no HDF5, which {} needs: build it with -DWEIR_WITH_HDF5=ON", path);
}

}  // namespace weir
