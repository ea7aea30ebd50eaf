// jpeg_image.hpp: images of JPEG files.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "datacache/resampling.hpp"

namespace weir::datacache {

/// Images with more pixels are refused: a small file may claim any number.
inline constexpr std::int64_t most_pixels = std::int64_t{1} << 26;
/// Progressive files with more scans are: each takes as long as the whole image.
inline constexpr int most_scans = 100;

[[nodiscard]] bool has_jpeg();
/// Returns the version of the library that is used, "libjpeg-turbo 2.1.5"; "none" in builds without it.
[[nodiscard]] std::string jpeg_version();

/// The largest centred part of an image that has the shape of `extent`, in as many pixels, red, green, blue: 3 bytes for each in
/// `pixels`. Gray images and those of four inks become red, green, blue. Large ones are first halved, up to three times, as the
/// decoder does. Throws Error(WEIR_ERR_FILE) for what is no JPEG file, is damaged, or ends early.
void decode_jpeg(std::span<const std::byte> file, Extent2 extent, std::span<std::byte> pixels);

}  // namespace weir::datacache
