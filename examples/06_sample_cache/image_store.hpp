// image_store.hpp: images on a slow store, one file each. NUMBER.img holds a byte for each pixel, then a byte for the class.
// images.txt holds the number of images and their size.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <weir/datacache.hpp>

namespace sample_cache {

/// Reads samples of such a store. A decoded sample is its pixels as floats, then its class as a std::int32_t.
class ImageStore final : public weir::SampleSource {
 public:
  static constexpr int classes = 10;

  /// Writes `count` made-up images into `folder`: stripes with noise. Each class has its own direction of stripes.
  static void make(const std::string& folder, std::int64_t count);

  /// `place` is a folder, or http://HOST:PORT of a server that serves it, for example `python3 -m http.server`.
  explicit ImageStore(std::string place);

  [[nodiscard]] int pixels() const { return side_ * side_; }
  [[nodiscard]] std::int64_t size() const override { return count_; }
  [[nodiscard]] std::int64_t value_bytes() const override { return (pixels() + 1) * std::int64_t{sizeof(float)}; }
  [[nodiscard]] std::string identity() const override { return "images: " + description_; }
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override;
  std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) override;

 private:
  [[nodiscard]] std::string get(const std::string& name) const;
  [[nodiscard]] std::string get_by_http(const std::string& name) const;

  std::string place_;
  sockaddr_storage server_{};
  socklen_t server_bytes_ = 0;  // 0 if place_ is a folder
  std::string description_;
  std::int64_t count_ = 0;
  int side_ = 0;
};

}  // namespace sample_cache
