// weir/datacache.hpp: training samples that are read and decoded once, and live in the memory of the nodes (CommLib section 4.1).
//
//   auto source = weir::idx_source("train-images-idx3-ubyte", "train-labels-idx1-ubyte");
//   weir::SampleCache cache(comm, {.folder = "/local/weir-cache", .name = "mnist"}, source);
//   weir::SampleLoader loader(cache, {.batch = 64, .seed = 1});
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     while (const std::optional<weir::SampleBatch> batch = loader.next()) train(*batch);
//   }
//
// Thread-safety, collective calls and errors are as for plans (weir/weir.hpp).
#ifndef WEIR_DATACACHE_HPP
#define WEIR_DATACACHE_HPP

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class SampleCacheImpl;
class SampleLoaderImpl;
}  // namespace detail

/// A data set on a slow store: numbered samples, how they are read, and how they are decoded. Every rank has a source of its own
/// for the same data. Derive from it for a format of your own.
///
/// read() and decode() are called by threads of the library: each by SampleCacheConfig::threads of them at once, so they must be
/// thread-safe. They throw for a sample that cannot be had; SampleCacheConfig::on_error says what happens then.
class SampleSource {
 public:
  virtual ~SampleSource();
  /// Samples of the data set.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Bytes of a decoded sample; with variable(), at most.
  [[nodiscard]] virtual std::int64_t value_bytes() const = 0;
  /// Decoded samples may be shorter than value_bytes().
  [[nodiscard]] virtual bool variable() const { return false; }
  /// A line that is another one when the data are others: names, sizes, times of change. What is cached of a data set is used for
  /// one of the same identity only. Equal on all ranks.
  [[nodiscard]] virtual std::string identity() const = 0;
  /// Where each sample is a file of its own: a number that is another one when one of samples [first, first + count) has changed
  /// under its name. Numbers of neighbouring ranges add up, modulo 2^64, to that of both: each rank looks at its share, where there
  /// is a folder whose packs outlive the run. Throws Error(WEIR_ERR_FILE).
  [[nodiscard]] virtual std::uint64_t changes(std::int64_t first, std::int64_t count) const;
  /// How the numbers of a value lie, for languages with arrays of several dimensions: a type and dimensions, and those of a label,
  /// at the next multiple of four bytes. "uint8[28,28] int32[]", say; empty: nobody knows.
  [[nodiscard]] virtual std::string layout() const { return {}; }
  /// Reads samples [first, first + count) from the store, as they are there: appends their bytes, one after the other, to
  /// `encoded`, which is empty, and writes how many each has to sizes, `count` long.
  virtual void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) = 0;
  /// Decodes a sample that read() has read into `value`, value_bytes() long. Returns the bytes of the decoded sample. The same
  /// bytes decode to the same value on every rank. Copies them unless overridden.
  virtual std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value);
};

/// A file of records of equal size, after a header. Values are the records. All of these throw Error(WEIR_ERR_FILE) where a file
/// cannot be read, is of another kind, or is damaged: where it has fewer or more bytes than its header says. They keep their files
/// open. In an identity(), files are named without their folders, which nodes may have mounted elsewhere, with their sizes and
/// times of change.
[[nodiscard]] std::shared_ptr<SampleSource> record_source(const std::string& path, std::int64_t record_bytes,
                                                          std::int64_t header_bytes = 0);
/// A file in the IDX format, as MNIST's, decompressed. A value is an item along the first dimension, elements in this machine's
/// byte order. With `labels`, another such file of one integer for each item, its label follows as a std::int32_t, at the next
/// multiple of four bytes.
[[nodiscard]] std::shared_ptr<SampleSource> idx_source(const std::string& path, const std::string& labels = "");
/// A NumPy file (.npy, versions 1 to 3), an array of numbers in the order of C: likewise.
[[nodiscard]] std::shared_ptr<SampleSource> npy_source(const std::string& path, const std::string& labels = "");
/// A data set of integers or real numbers in an HDF5 file: likewise. `labels` names another one of the same file. Where a chunk has
/// many samples, let pack_samples be a multiple of them. One thread of the process at a time reads, since the HDF5 library need not
/// be made for more; a program that calls that library itself while samples are read needs one that is (H5is_library_threadsafe).
/// Throws Error(WEIR_ERR_UNSUPPORTED) in builds without HDF5.
[[nodiscard]] std::shared_ptr<SampleSource> hdf5_source(const std::string& path, const std::string& dataset,
                                                        const std::string& labels = "");
/// JPEG files (.jpg, .jpeg, in any case) in the subfolders of `folder`, one subfolder for each class, in the order of their names'
/// bytes; names that begin with a dot are left out. A value is an image of height x width x 3 bytes (rows, pixels, red green blue):
/// the largest centred part of its shape, resized, which first halves images that are at least twice as large, as their decoder
/// does, and then interpolates between pixels; then the number of its class as a std::int32_t, at the next multiple of four bytes.
/// The same libjpeg decodes to the same bytes on every machine. A sample is refused that is damaged, ends early, or claims more
/// than 2^26 pixels or 100 scans. Pixels are as the file stores them: an orientation in its EXIF data is not applied. changes()
/// asks for size and time of change of each file, a call of the file system for each. Throws Error(WEIR_ERR_UNSUPPORTED) in builds
/// without libjpeg.
[[nodiscard]] std::shared_ptr<SampleSource> jpeg_source(const std::string& folder, int height, int width);

/// Samples by number, from wherever they are. Each belongs to one rank, its owner: of P ranks, rank r owns a run of about size() /
/// P samples, in packs of SampleCacheConfig::pack_samples. The owner reads it when somebody first asks for it, decodes it, and
/// keeps it in memory that its node shares (level 2); what it has read it also keeps, with its whole pack, in a folder of its
/// node's own storage (level 1), where later runs find it. Memory and folder are bounded. What does not fit into memory is read
/// from the folder each time; what does not fit into the folder, from the store.
///
/// Ranks of a node read each other's memory, without locks. Samples of other nodes travel as messages, below gradients in
/// priority.
class SampleCache {
 public:
  /// Collective. Allocates all memory; refuses on all ranks when configurations or sources differ, when level 2 cannot be had, and
  /// when the folder cannot be used or has another data set of that name.
  SampleCache(const Communicator& comm, const SampleCacheConfig& config, std::shared_ptr<SampleSource> source);
  SampleCache(SampleCache&&) noexcept = default;
  SampleCache& operator=(SampleCache&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator. Finishes what is in flight.
  ~SampleCache() = default;

  /// Collective, blocking: start(...).wait().
  void get(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes = {});
  /// Collective, nonblocking. Each rank asks for samples of its own, at most SampleCacheConfig::largest_batch, perhaps none. Value
  /// i goes to values[i * value_bytes() ...], its bytes to sizes[i], -1 for one that was skipped, whose value is all zeros.
  /// `samples` must last until the call returns; `values` and `sizes`, which may be empty, until the operation has finished. As
  /// many as SampleCacheConfig::in_flight may be in flight; one more waits for the first of them, and throws what that has ended
  /// with. An Operation stands for the place of its batch among these: once in_flight further batches have been started, its test
  /// and wait are about the one that has this place then. A number outside [0, size()) on any rank is an error on every rank, and
  /// so is a sample that cannot be read or decoded, unless on_error skips it: the error names it.
  [[nodiscard]] Operation start(std::span<const std::int64_t> samples, std::span<std::byte> values,
                                std::span<std::int64_t> sizes = {});
  /// Collective, in place of start() or get() where this rank has nothing right to give to them, as the bindings of other languages
  /// find out: the batch ends with Error(WEIR_ERR_ARGUMENT) on all ranks, whose text names the rank and says `why`.
  [[nodiscard]] Operation refuse(std::string_view why);

  [[nodiscard]] std::int64_t size() const;         ///< samples
  [[nodiscard]] std::int64_t value_bytes() const;  ///< of a decoded sample, at most
  [[nodiscard]] int owner(std::int64_t sample) const;
  [[nodiscard]] const SampleCacheConfig& config() const;  ///< in force
  [[nodiscard]] SampleCacheStatistics statistics() const;
  /// Returns, as text, how much of the data set fits where.
  [[nodiscard]] std::string explanation() const;
  /// Returns the bytes that this rank holds: its part of level 2, and what batches in flight take.
  [[nodiscard]] std::int64_t memory_bytes() const;
  [[nodiscard]] const std::shared_ptr<detail::SampleCacheImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::SampleCacheImpl> state_;
};

/// What a rank works on in one step. The loader's memory, valid until its next call of next().
struct SampleBatch {
  std::int64_t epoch = 0, step = 0;         ///< from 0
  std::span<const std::int64_t> samples{};  ///< their numbers; fewer than the loader's batch at the end of an epoch, perhaps none
  std::span<const std::byte> values{};      ///< samples.size() x value_bytes()
  std::span<const std::int64_t> sizes{};    ///< bytes of each; -1: skipped
  std::int64_t value_bytes = 0;

  [[nodiscard]] std::span<const std::byte> value(std::size_t i) const {
    return values.subspan(i * static_cast<std::size_t>(value_bytes), static_cast<std::size_t>(value_bytes));
  }
};

/// Epochs over a data set: in each, every sample comes exactly once, on one rank, in an order that the seed and the epoch say and
/// nothing else. Batches are asked for ahead of time, SampleCacheConfig::in_flight of them.
class SampleLoader {
 public:
  /// Collective. Refuses on all ranks when configurations differ. The cache is kept as long as its loaders need it.
  SampleLoader(SampleCache& cache, const SampleLoaderConfig& config);
  SampleLoader(SampleLoader&&) noexcept = default;
  SampleLoader& operator=(SampleLoader&&) noexcept = default;
  ~SampleLoader() = default;

  /// Collective, blocking until the batch is there. Nothing at the end of an epoch, on all ranks alike; the next call begins the
  /// next one. On a terminal, rank 0 shows how far the first epoch of the run has got.
  [[nodiscard]] std::optional<SampleBatch> next();

  [[nodiscard]] std::int64_t epoch() const;  ///< that the next batch belongs to; at the end of an epoch that one
  [[nodiscard]] std::int64_t step() const;   ///< of that batch; steps() at the end of the epoch
  [[nodiscard]] std::int64_t steps() const;  ///< of that epoch
  /// Where the run is, after the batches that next() has returned, as a line of text. The same on all ranks.
  [[nodiscard]] std::string position() const;
  /// Collective, blocking. Goes on from a position() of a loader over as many samples, on any number of ranks: what is left of its
  /// epoch comes exactly once. On the same ranks with the same batch, in the same batches. From the end of an epoch it goes on with
  /// the next one, which epoch() then is. Throws Error(WEIR_ERR_ARGUMENT) on all ranks for other text.
  void seek(std::string_view position);
  [[nodiscard]] const SampleLoaderConfig& config() const;

 private:
  detail::Owner<detail::SampleLoaderImpl> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
