// jpeg_image.hpp: decodes JPEG images.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "datacache/resampling.hpp"

namespace weir::datacache {

/// Images with more pixels are refused, because a small file can claim any number.
inline constexpr std::int64_t most_pixels = std::int64_t{1} << 26;
/// Progressive files with more scans are refused, because each scan takes as long as the whole image.
inline constexpr int most_scans = 100;

[[nodiscard]] bool has_jpeg();
/// Returns the version of the library in use, for example "libjpeg-turbo 2.1.5", or "none" in builds without it.
[[nodiscard]] std::string jpeg_version();

/// Scales the largest centred part of an image with the shape of `extent` to the size `extent`. `pixels` gets 3 bytes for each
/// pixel: red, green, blue. Gray and four-ink images are converted. Large images are first halved by the decoder, up to three
/// times. Throws Error(WEIR_ERR_FILE) if the file is not a JPEG file, is damaged, or ends early.
void decode_jpeg(std::span<const std::byte> file, Extent2 extent, std::span<std::byte> pixels);

}  // namespace weir::datacache
