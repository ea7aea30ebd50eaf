// test_jpeg_source.cpp: folders of JPEG files written by libjpeg, and damaged ones.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

// After <cstdio>, which it needs.
#include <jpeglib.h>

#include "datacache/jpeg_image.hpp"
#include "datacache/source_files.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

using datacache::Extent2;

struct Kind {
  int components = 3;
  J_COLOR_SPACE given = JCS_RGB, stored = JCS_YCbCr;
  bool progressive = false;
  int scans = 0;  ///< if above 0, the number of scans of the same kind
  bool adobe = true;
};

/// Returns the value of a component in a smooth image.
int shade(Extent2 extent, int y, int x, int component) {
  const int slope = component == 0 ? y * 255 / std::max(1, extent.height - 1) : x * 255 / std::max(1, extent.width - 1);
  return component == 2 ? 255 - slope : slope;
}

std::string encoded(Extent2 extent, const Kind& kind = {}) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&jpeg, &memory, &bytes);
  jpeg.image_height = static_cast<JDIMENSION>(extent.height);
  jpeg.image_width = static_cast<JDIMENSION>(extent.width);
  jpeg.input_components = kind.components;
  jpeg.in_color_space = kind.given;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, kind.stored);
  if (!kind.adobe) jpeg.write_Adobe_marker = FALSE;
  jpeg_set_quality(&jpeg, 100, TRUE);
  for (int i = 0; i < kind.components; ++i) jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  std::vector<jpeg_scan_info> scans;
  if (kind.scans > 0) {  // of DC, then of AC, one coefficient after the other, again and again in finer steps
    jpeg_scan_info dc{};
    dc.comps_in_scan = 1;
    scans.push_back(dc);
    for (int low = 1; low >= 0; --low) {
      for (int coefficient = 1; coefficient < 64; ++coefficient) {
        jpeg_scan_info ac{};
        ac.comps_in_scan = 1;
        ac.Ss = ac.Se = coefficient;
        ac.Ah = low == 1 ? 0 : 1;
        ac.Al = low;
        scans.push_back(ac);
      }
    }
    scans.resize(static_cast<std::size_t>(kind.scans));
    jpeg.scan_info = scans.data();
    jpeg.num_scans = kind.scans;
  }
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<unsigned char> line(static_cast<std::size_t>(extent.width) * static_cast<std::size_t>(kind.components));
  for (int y = 0; y < extent.height; ++y) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const int x = static_cast<int>(i) / kind.components;
      line[i] = static_cast<unsigned char>(shade(extent, y, x, static_cast<int>(i) % kind.components));
    }
    JSAMPROW row = line.data();
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::string file(reinterpret_cast<const char*>(memory), bytes);
  jpeg_destroy_compress(&jpeg);
  std::free(memory);
  return file;
}

std::vector<std::byte> decoded(const std::string& file, Extent2 extent) {
  std::vector<std::byte> pixels(3 * static_cast<std::size_t>(extent.height) * static_cast<std::size_t>(extent.width));
  decode_jpeg(bytes_of(file), extent, pixels);
  return pixels;
}

std::string error_of(const std::string& file, Extent2 extent = {8, 8}) {
  return file_error([&] { return decoded(file, extent); });
}

/// Returns the largest difference from `expected(y, x, colour)`.
template <class Expected>
double worst(const std::vector<std::byte>& pixels, Extent2 extent, const Expected& expected) {
  double found = 0;
  for (int y = 0; y < extent.height; ++y) {
    for (int x = 0; x < extent.width; ++x) {
      for (int colour = 0; colour < 3; ++colour) {
        const auto at = static_cast<std::size_t>((y * extent.width + x) * 3 + colour);
        found = std::max(found, std::abs(std::to_integer<int>(pixels[at]) - expected(y, x, colour)));
      }
    }
  }
  return found;
}

TEST_CASE("images of their own size are what was written, within what JPEG loses") {
  for (const bool progressive : {false, true}) {
    for (const Extent2 extent : {Extent2{40, 56}, Extent2{1, 1}, Extent2{17, 3}, Extent2{8, 8}}) {
      const auto rgb = [&](int y, int x, int colour) -> double { return shade(extent, y, x, colour); };
      const auto gray = [&](int y, int x, int) -> double { return shade(extent, y, x, 0); };
      CHECK(worst(decoded(encoded(extent, {3, JCS_RGB, JCS_YCbCr, progressive}), extent), extent, rgb) <= 4);
      CHECK(worst(decoded(encoded(extent, {3, JCS_RGB, JCS_RGB, progressive}), extent), extent, rgb) <= 4);
      CHECK(worst(decoded(encoded(extent, {1, JCS_GRAYSCALE, JCS_GRAYSCALE, progressive}), extent), extent, gray) <= 3);
      // Adobe writes inks inverted: 255 means no ink.
      const auto inks = [&](int y, int x, int colour) { return shade(extent, y, x, colour) * shade(extent, y, x, 3) / 255.0; };
      CHECK(worst(decoded(encoded(extent, {4, JCS_CMYK, JCS_CMYK, progressive}), extent), extent, inks) <= 6);
      CHECK(worst(decoded(encoded(extent, {4, JCS_CMYK, JCS_YCCK, progressive}), extent), extent, inks) <= 6);
      const auto plain = [&](int y, int x, int colour) {
        return (255 - shade(extent, y, x, colour)) * (255 - shade(extent, y, x, 3)) / 255.0;
      };
      CHECK(worst(decoded(encoded(extent, {4, JCS_CMYK, JCS_CMYK, progressive, 0, false}), extent), extent, plain) <= 6);
    }
  }
}

TEST_CASE("larger and smaller images: the largest centred part, resized") {
  for (const Extent2 from : {Extent2{300, 500}, Extent2{500, 300}, Extent2{64, 64}, Extent2{1000, 1100}}) {
    for (const Extent2 to : {Extent2{32, 32}, Extent2{30, 50}, Extent2{224, 224}, Extent2{600, 600}, Extent2{1, 7}}) {
      const std::vector<std::byte> pixels = decoded(encoded(from), to);
      const double step = std::min(static_cast<double>(from.height) / to.height, static_cast<double>(from.width) / to.width);
      // The image is smooth: any good way of resizing gives nearly the same.
      const auto expected = [&](int y, int x, int colour) {
        const double there_y = std::clamp((y + 0.5 - to.height / 2.0) * step + from.height / 2.0 - 0.5, 0.0, from.height - 1.0);
        const double there_x = std::clamp((x + 0.5 - to.width / 2.0) * step + from.width / 2.0 - 0.5, 0.0, from.width - 1.0);
        return static_cast<double>(shade(from, static_cast<int>(there_y + 0.5), static_cast<int>(there_x + 0.5), colour));
      };
      INFO(from.height << " x " << from.width << " to " << to.height << " x " << to.width);
      CHECK(worst(pixels, to, expected) <= 8);
    }
  }
}

TEST_CASE("decoded bytes are the same on every machine") {
  // As the first machine has decoded them; CTest runs this also without libjpeg-turbo's SIMD code.
  if (!datacache::jpeg_version().starts_with("libjpeg-turbo 2.1.")) return;
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : decoded(encoded({120, 90}), {31, 47}))
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  CHECK(hash == 0xc10acd18079ac1c5);
}

TEST_CASE("files that are cut off or damaged are errors, and never more") {
  for (const bool progressive : {false, true}) {
    const std::string whole = encoded({33, 45}, {3, JCS_RGB, JCS_YCbCr, progressive});
    for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
      INFO("cut off at " << size << " of " << whole.size());
      REQUIRE_THAT(error_of(whole.substr(0, size)), ContainsSubstring("cannot be decoded"));
    }
    CHECK_THAT(error_of(whole.substr(0, whole.size() - 2)), ContainsSubstring("remature end"));
    Dice dice(progressive ? 3 : 4);
    for (int round = 0; round < 1500; ++round) {
      std::string damaged = whole;
      for (int change = dice.small(1, 5); change > 0; --change) {
        const auto at =
            static_cast<std::size_t>(dice.between(0, dice.chance(50) ? 300 : static_cast<std::int64_t>(whole.size()) - 1));
        damaged[at] = static_cast<char>(dice.word());
      }
      const std::string error = error_of(damaged, {dice.small(1, 50), dice.small(1, 50)});
      REQUIRE_THAT(error, !ContainsSubstring("another status"));
    }
  }
}

TEST_CASE("other files are named for what they are") {
  CHECK_THAT(error_of(""), ContainsSubstring("cannot be decoded"));
  CHECK_THAT(error_of("\x89PNG\r\n\x1a\n and more"), ContainsSubstring("Not a JPEG file: starts with 0x89 0x50"));
  CHECK_THAT(error_of(std::string(100, '\0')), ContainsSubstring("Not a JPEG file"));
}

TEST_CASE("files that claim too much are refused") {
  std::string large = encoded({16, 16});
  const std::size_t frame = large.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  large.replace(frame + 5, 4, "\xff\xdc\xff\xdc");  // 65500 x 65500
  CHECK_THAT(error_of(large), ContainsSubstring("claims 65500 x 65500 pixels"));
  CHECK(error_of(encoded({32, 32}, {1, JCS_GRAYSCALE, JCS_GRAYSCALE, true, 60})) == "none");
  CHECK_THAT(error_of(encoded({32, 32}, {1, JCS_GRAYSCALE, JCS_GRAYSCALE, true, 120})), ContainsSubstring("more than 100 scans"));
}

TEST_CASE("folders of files by class, in the order of their bytes") {
  const TemporaryFolder folder;
  const auto put = [&](const std::string& name, Extent2 extent) {
    const std::filesystem::path path = std::filesystem::path(folder.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    write_file(path.string(), encoded(extent));
  };
  put("b/2.jpg", {20, 20});
  put("b/10.JPEG", {21, 20});
  put("B/1.jpeg", {22, 20});
  put("c d/\xc3\xa4.JPG", {23, 20});
  std::filesystem::create_directory(folder.path() + "/empty");
  std::filesystem::create_directory(folder.path() + "/.hidden");
  put(".hidden/1.jpg", {20, 20});
  write_file(folder.path() + "/b/notes.txt", "no image");
  write_file(folder.path() + "/b/.part.jpg", "no image");
  write_file(folder.path() + "/stray.jpg", "in no class");
  const std::shared_ptr<SampleSource> source = jpeg_source(folder.path() + "/", 5, 7);
  REQUIRE(source->size() == 4);
  CHECK(source->value_bytes() == 5 * 7 * 3 + 3 + 4);
  CHECK(source->layout() == "uint8[5,7,3] int32[]");
  const std::vector<Bytes> values = values_of(*source);
  const std::int32_t classes[] = {0, 1, 1, 2};
  const Extent2 extents[] = {{22, 20}, {21, 20}, {20, 20}, {23, 20}};
  for (std::size_t i = 0; i < 4; ++i) {
    std::string pixels;
    for (const std::byte byte : decoded(encoded(extents[i]), {5, 7})) pixels += static_cast<char>(byte);
    CHECK(values[i] == labelled(pixels, pixels.size(), {classes[i]})[0]);
    CHECK(values_of(*source, static_cast<std::int64_t>(i), 1)[0] == values[i]);
  }
  CHECK(source->identity() == jpeg_source(folder.path(), 5, 7)->identity());
  CHECK_THAT(source->identity(), ContainsSubstring("4 classes 4 files"));
  const std::uint64_t unchanged = source->changes(0, 4);
  CHECK(unchanged == jpeg_source(folder.path(), 5, 7)->changes(0, 4));
  CHECK(unchanged == source->changes(0, 1) + source->changes(1, 0) + source->changes(1, 3));
  put("b/2.jpg", {30, 30});
  CHECK(source->changes(0, 4) != unchanged);
  const std::string before = source->identity();
  std::filesystem::rename(folder.path() + "/b/2.jpg", folder.path() + "/b/3.jpg");
  CHECK(jpeg_source(folder.path(), 5, 7)->identity() != before);
  CHECK_THAT(file_error([&] { return values_of(*source); }), ContainsSubstring("b/2.jpg"));
  CHECK_THAT(file_error([&] { return source->changes(0, 4); }), ContainsSubstring("cannot look at"));
  write_file(folder.path() + "/b/2.jpg", "no image");
  CHECK_THAT(file_error([&] { return values_of(*source, 2, 1); }), ContainsSubstring("b/2.jpg cannot be decoded: Not a JPEG file"));
}

TEST_CASE("folders that have no classes, and sides that no image has") {
  const TemporaryFolder folder;
  CHECK_THAT(file_error([&] { return jpeg_source(folder.path(), 5, 5); }), ContainsSubstring("no subfolders"));
  CHECK_THAT(file_error([&] { return jpeg_source(folder.path() + "/none", 5, 5); }), ContainsSubstring("No such file"));
  std::filesystem::create_directory(folder.path() + "/a");
  CHECK(jpeg_source(folder.path(), 5, 5)->size() == 0);
  CHECK_THROWS_AS(jpeg_source(folder.path(), 0, 5), Error);
  CHECK_THROWS_AS(jpeg_source(folder.path(), 5, 65501), Error);
}

}  // namespace
}  // namespace weir::test
