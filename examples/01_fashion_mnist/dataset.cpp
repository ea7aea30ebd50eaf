#include "dataset.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <string>

namespace fashion_mnist {
namespace {

constexpr int classes = 10;
// Mean and standard deviation of the training images' bytes.
constexpr float pixel_mean = 72.94F;
constexpr float pixel_deviation = 90.02F;

struct IdxFile {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// Reads a gzipped IDX file of unsigned bytes: 0 0 8 <dimensions>, a big-endian size per dimension, the data.
class IdxReader {
 public:
  explicit IdxReader(std::filesystem::path path) : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb"), &gzclose) {
    if (!file_) {
      throw std::runtime_error("cannot open " + path_.string() +
                               ": install the package dataset-fashion-mnist, or name the folder of the files with --data");
    }
    gzbuffer(file_.get(), 1U << 18U);
  }

  IdxFile read() {
    std::array<std::uint8_t, 4> magic{};
    read_bytes(magic);
    if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || magic[3] < 1 || magic[3] > 3) {
      throw std::runtime_error(path_.string() + " is not an IDX file of unsigned bytes in one to three dimensions");
    }
    IdxFile result;
    std::int64_t total = 1;
    for (int dimension = 0; dimension < magic[3]; ++dimension) {
      result.shape.push_back(read_size());
      total *= result.shape.back();
    }
    result.bytes.resize(static_cast<std::size_t>(total));
    read_bytes(result.bytes);
    return result;
  }

 private:
  std::int64_t read_size() {
    std::array<std::uint8_t, 4> bytes{};
    read_bytes(bytes);
    const std::int64_t size = (std::int64_t{bytes[0]} << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3];
    if (size < 1 || size > 1'000'000) {
      throw std::runtime_error(path_.string() + " claims a dimension of " + std::to_string(size) + ", which cannot be right");
    }
    return size;
  }

  void read_bytes(std::span<std::uint8_t> bytes) {
    if (gzread(file_.get(), bytes.data(), static_cast<unsigned>(bytes.size())) != static_cast<int>(bytes.size())) {
      throw std::runtime_error(path_.string() + " ends too early or is damaged");
    }
  }

  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

Dataset read_dataset(const std::filesystem::path& folder, std::string_view part) {
  const std::string prefix(part);
  IdxFile images = IdxReader(folder / (prefix + "-images-idx3-ubyte.gz")).read();
  IdxFile labels = IdxReader(folder / (prefix + "-labels-idx1-ubyte.gz")).read();
  if (images.shape.size() != 3 || labels.shape.size() != 1 || images.shape[0] != labels.shape[0]) {
    throw std::runtime_error("images and labels of '" + prefix + "' in " + folder.string() + " do not belong together");
  }
  if (std::ranges::any_of(labels.bytes, [](std::uint8_t label) { return label >= classes; })) {
    throw std::runtime_error("labels of '" + prefix + "' in " + folder.string() + " are not all below " + std::to_string(classes));
  }
  return {.count = images.shape[0],
          .pixels = static_cast<int>(images.shape[1] * images.shape[2]),
          .images = std::move(images.bytes),
          .labels = std::move(labels.bytes)};
}

void load_batch(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch) {
  const auto pixels = static_cast<std::size_t>(dataset.pixels);
  batch.images.resize(indices.size() * pixels);
  batch.labels.resize(indices.size());
  for (std::size_t row = 0; row < indices.size(); ++row) {
    const auto index = static_cast<std::size_t>(indices[row]);
    const std::uint8_t* from = &dataset.images[index * pixels];
    std::transform(from, from + pixels, &batch.images[row * pixels],
                   [](std::uint8_t pixel) { return (static_cast<float>(pixel) - pixel_mean) / pixel_deviation; });
    batch.labels[row] = dataset.labels[index];
  }
}

Sampler::Sampler(const Dataset& dataset, int rank, int size, int batch, std::uint64_t seed)
    : dataset_(dataset), batch_size_(batch), batches_per_epoch_(dataset.count / size / batch), next_(batches_per_epoch_) {
  if (batches_per_epoch_ < 1) {
    throw std::runtime_error("a batch of " + std::to_string(batch) + " on each of " + std::to_string(size) + " ranks exceeds the " +
                             std::to_string(dataset.count) + " images");
  }
  for (std::int64_t index = rank; index < dataset.count; index += size) order_.push_back(index);
  std::seed_seq sequence{seed, static_cast<std::uint64_t>(rank)};
  random_.seed(sequence);
}

void Sampler::advance() {
  if (next_ == batches_per_epoch_) {
    std::ranges::shuffle(order_, random_);
    next_ = 0;
  }
  ++next_;
}

const Batch& Sampler::next() {
  advance();
  const auto size = static_cast<std::size_t>(batch_size_);
  load_batch(dataset_, std::span(order_).subspan(static_cast<std::size_t>(next_ - 1) * size, size), batch_);
  return batch_;
}

void Sampler::skip(std::int64_t batches) {
  for (std::int64_t i = 0; i < batches; ++i) advance();
}

}  // namespace fashion_mnist
