// Replaces jpeg_image.cpp in a build without libjpeg.
#include "base/error.hpp"
#include "datacache/jpeg_image.hpp"

namespace weir::datacache {

bool has_jpeg() { return false; }
std::string jpeg_version() { return "none"; }
void decode_jpeg(std::span<const std::byte> /*file*/, Extent2 /*extent*/, std::span<std::byte> /*pixels*/) {
  fail(WEIR_ERR_UNSUPPORTED, "this build of Weir has no libjpeg, which JPEG files need: build it with -DWEIR_WITH_JPEG=ON");
}

}  // namespace weir::datacache
