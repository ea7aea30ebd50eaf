#include "datacache/jpeg_image.hpp"

#include <array>
#include <csetjmp>
#include <cstdio>
#include <type_traits>
#include <vector>

// <jpeglib.h> needs <cstdio>.
#include <jpeglib.h>
// <jerror.h> needs <jpeglib.h>.
#include <jerror.h>

#include "base/error.hpp"

namespace weir::datacache {
namespace {

/// The library's state, and the target of its error jumps.
struct Decoder {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf end_of_step;
  std::array<char, JMSG_LENGTH_MAX> text;
};

Decoder& decoder_of(j_common_ptr jpeg) { return *static_cast<Decoder*>(jpeg->client_data); }

[[noreturn]] void end_step(j_common_ptr jpeg) {
  jpeg->err->format_message(jpeg, decoder_of(jpeg).text.data());
  std::longjmp(decoder_of(jpeg).end_of_step, 1);  // NOLINT(cert-err52-cpp): jumps over C functions and steps
}

/// Turns warnings of damaged data into errors. Ignores warnings of odd but harmless files.
void judge_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC:
      return;
    default:
      end_step(jpeg);
  }
}

void count_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= most_scans) return;
  Decoder& decoder = decoder_of(jpeg);
  std::snprintf(decoder.text.data(), decoder.text.size(), "it has more than %d scans", most_scans);
  std::longjmp(decoder.end_of_step, 1);  // NOLINT(cert-err52-cpp)
}

/// Runs a few calls of the library. Their errors jump out of `step`, which therefore must have nothing to destroy, and are thrown
/// from here.
template <class Step>
void run(Decoder& decoder, const Step& step) {
  static_assert(std::is_trivially_destructible_v<Step>);
  if (setjmp(decoder.end_of_step) == 0)  // NOLINT(cert-err52-cpp)
    step();
  else
    fail(WEIR_ERR_FILE, "cannot be decoded: {}", decoder.text.data());
}

/// Decodes one file, from its header to its last line.
class Image {
 public:
  explicit Image(std::span<const std::byte> file) {
    jpeg_.err = jpeg_std_error(&decoder_.errors);
    jpeg_.client_data = &decoder_;
    decoder_.errors.error_exit = end_step;
    decoder_.errors.emit_message = judge_message;
    run(decoder_, [&] { jpeg_create_decompress(&jpeg_); });
    try {
      read_header(file);
    } catch (...) {
      jpeg_destroy_decompress(&jpeg_);
      throw;
    }
  }
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;
  ~Image() { jpeg_destroy_decompress(&jpeg_); }

  /// Halves the image as often as it stays at least as large as `least`.
  void start(Extent2 least) {
    for (unsigned part = 8; part > 1; part /= 2) {
      const auto halved = [&](unsigned length) { return static_cast<int>((length + part - 1) / part); };
      if (halved(jpeg_.image_height) < least.height || halved(jpeg_.image_width) < least.width) continue;
      jpeg_.scale_denom = part;
      break;
    }
    jpeg_.out_color_space = inks() ? JCS_CMYK : JCS_RGB;
    jpeg_.dct_method = JDCT_ISLOW;  // the same bytes with and without SIMD
    run(decoder_, [&] { jpeg_start_decompress(&jpeg_); });
  }
  [[nodiscard]] Extent2 extent() const { return {static_cast<int>(jpeg_.output_height), static_cast<int>(jpeg_.output_width)}; }
  /// Returns the bytes that reading a line needs.
  [[nodiscard]] std::size_t line_bytes() const {
    return static_cast<std::size_t>(jpeg_.output_width) * static_cast<std::size_t>(jpeg_.output_components);
  }
  /// Reads the next line as red, green, blue. There must be one.
  void read_line(std::span<std::byte> line) {
    JSAMPROW row = reinterpret_cast<JSAMPROW>(line.data());
    run(decoder_, [&] { jpeg_read_scanlines(&jpeg_, &row, 1); });
    if (inks()) make_colours(line);
  }
  void finish() {
    run(decoder_, [&] { jpeg_finish_decompress(&jpeg_); });
  }

 private:
  void read_header(std::span<const std::byte> file) {
    run(decoder_, [&] {
      jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
      jpeg_read_header(&jpeg_, TRUE);
    });
    decoder_.progress.progress_monitor = count_scans;
    jpeg_.progress = &decoder_.progress;
    if (std::int64_t{jpeg_.image_height} * jpeg_.image_width > most_pixels)
      fail(WEIR_ERR_FILE, "claims {} x {} pixels: at most {} are decoded", jpeg_.image_height, jpeg_.image_width, most_pixels);
    const J_COLOR_SPACE space = jpeg_.jpeg_color_space;
    if (space != JCS_GRAYSCALE && space != JCS_RGB && space != JCS_YCbCr && !inks())
      fail(WEIR_ERR_FILE, "has {} components of an unknown kind: gray, RGB, YCbCr, CMYK and YCCK images are decoded",
           jpeg_.num_components);
  }
  [[nodiscard]] bool inks() const { return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK; }
  /// Converts cyan, magenta, yellow and black to red, green and blue. Adobe's programs store the inks inverted.
  void make_colours(std::span<std::byte> line) const {
    const int flip = jpeg_.saw_Adobe_marker != 0 ? 0 : 255;
    for (std::size_t x = 0; 4 * x < line.size(); ++x) {
      const int light = std::to_integer<int>(line[4 * x + 3]) ^ flip;
      for (std::size_t colour = 0; colour < 3; ++colour) {
        const int ink = std::to_integer<int>(line[4 * x + colour]) ^ flip;
        line[3 * x + colour] = static_cast<std::byte>((ink * light + 127) / 255);
      }
    }
  }

  Decoder decoder_{};
  jpeg_decompress_struct& jpeg_ = decoder_.jpeg;
};

}  // namespace

bool has_jpeg() { return true; }

std::string jpeg_version() {
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
  return fmt::format("libjpeg-turbo {}.{}.{}", LIBJPEG_TURBO_VERSION_NUMBER / 1000000, LIBJPEG_TURBO_VERSION_NUMBER / 1000 % 1000,
                     LIBJPEG_TURBO_VERSION_NUMBER % 1000);
#else
  return fmt::format("libjpeg {}", JPEG_LIB_VERSION / 10);
#endif
}

void decode_jpeg(std::span<const std::byte> file, Extent2 extent, std::span<std::byte> pixels) {
  Image image(file);
  image.start(extent);
  const CentredCrop crop(image.extent(), extent);
  const std::size_t line_bytes = image.line_bytes();
  std::vector<std::byte> last_two(2 * line_bytes);
  const auto line = [&](int number) { return std::span(last_two).subspan(number % 2 == 0 ? 0 : line_bytes, line_bytes); };
  int read = 0;
  const auto read_until = [&](int number) {
    for (; read < number; ++read) image.read_line(line(read));
  };
  const auto row_bytes = 3 * static_cast<std::size_t>(extent.width);
  for (int y = 0; y < extent.height; ++y) {
    const Between& at = crop.lines[static_cast<std::size_t>(y)];
    read_until(at.second + 1);
    blend(line(at.first), line(at.second), at.weight, crop.columns,
          pixels.subspan(static_cast<std::size_t>(y) * row_bytes, row_bytes));
  }
  read_until(image.extent().height);  // the part cut away may be damaged, too
  image.finish();
}

}  // namespace weir::datacache
