// Fashion-MNIST as the Debian package dataset-fashion-mnist installs it: gzipped IDX files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace fashion_mnist {

struct Dataset {
  std::int64_t count = 0;
  int pixels = 0;                    ///< per image
  std::vector<std::uint8_t> images;  ///< count x pixels
  std::vector<std::uint8_t> labels;  ///< count, each 0 to 9
};

/// Reads `part` ("train" or "t10k") from `folder`. Throws std::runtime_error naming the file and what is wrong with it.
Dataset read_dataset(const std::filesystem::path& folder, std::string_view part);

/// Some images of a dataset, as the network wants them.
struct Batch {
  std::vector<float> images;  ///< labels.size() x pixels, about zero mean and unit variance
  std::vector<std::uint8_t> labels;
};

/// Copies the images numbered `indices` into `batch`.
void load_batch(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch);

/// Endless batches from one rank's share of a dataset, every size-th image, in an order that changes each epoch.
class Sampler {
 public:
  Sampler(const Dataset& dataset, int rank, int size, int batch, std::uint64_t seed);
  /// Batches per epoch, the same on all ranks: what does not fill a batch waits for another epoch's order.
  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  /// The next batch, valid until the next call.
  const Batch& next();
  /// As next() so many times.
  void skip(std::int64_t batches);

 private:
  void advance();

  const Dataset& dataset_;
  int batch_size_;
  std::int64_t batches_per_epoch_;
  std::int64_t next_ = 0;
  std::vector<std::int64_t> order_;
  std::mt19937_64 random_;
  Batch batch_;
};

}  // namespace fashion_mnist
