// dataset.hpp: reads Fashion-MNIST, the gzipped IDX files of the Debian package dataset-fashion-mnist, and makes batches of it.
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

/// Reads `part` ("train" or "t10k") from `folder`. Throws std::runtime_error that names the file and the fault.
Dataset read_dataset(const std::filesystem::path& folder, std::string_view part);

/// Holds some images of a dataset in the form that the network reads.
struct Batch {
  std::vector<float> images;  ///< labels.size() x pixels, about zero mean and unit variance
  std::vector<std::uint8_t> labels;
};

/// Copies the images numbered `indices` into `batch`.
void load_batch(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch);

/// Draws endless batches from one rank's share of a dataset, every size-th image. The order changes each epoch.
class Sampler {
 public:
  Sampler(const Dataset& dataset, int rank, int size, int batch, std::uint64_t seed);
  /// Returns the batches per epoch, the same number on every rank. An epoch leaves out images that do not fill a batch.
  [[nodiscard]] std::int64_t batches_per_epoch() const noexcept { return batches_per_epoch_; }
  /// Returns the next batch, which is valid until the next call.
  const Batch& next();
  /// Skips `batches` batches.
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
