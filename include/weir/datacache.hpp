// weir/datacache.hpp: a cache of training samples, which are read and decoded once and live in the memory of the nodes (CommLib
// section 4.1).
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

/// A data set on a slow store: numbered samples, and how they are read and decoded. Every rank has its own source for the same
/// data. Derive from this class for a format of your own.
///
/// Threads of the library call read() and decode(), each from SampleCacheConfig::threads of them at once, so both must be
/// thread-safe. They throw for a sample that cannot be read or decoded; SampleCacheConfig::on_error says what happens then.
class SampleSource {
 public:
  virtual ~SampleSource();
  /// Returns the number of samples of the data set.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns the number of bytes of a decoded sample; with variable(), the largest number.
  [[nodiscard]] virtual std::int64_t value_bytes() const = 0;
  /// Returns whether decoded samples may be shorter than value_bytes().
  [[nodiscard]] virtual bool variable() const { return false; }
  /// Returns a line that changes when the data change: names, sizes, times of change. Cached samples are used only for a data set
  /// of the same identity. Equal on all ranks.
  [[nodiscard]] virtual std::string identity() const = 0;
  /// Returns a number that changes when one of samples [first, first + count) has changed under its name; for sources in which each
  /// sample is a file of its own. The numbers of neighbouring ranges add up, modulo 2^64, to that of both. Each rank looks at its
  /// share, if there is a folder whose packs outlive the run. Throws Error(WEIR_ERR_FILE).
  [[nodiscard]] virtual std::uint64_t changes(std::int64_t first, std::int64_t count) const;
  /// Returns how the numbers of a value are laid out, for languages with arrays of several dimensions: a type and dimensions, then
  /// those of a label, which is at the next multiple of four bytes. For example "uint8[28,28] int32[]"; empty if unknown.
  [[nodiscard]] virtual std::string layout() const { return {}; }
  /// Reads samples [first, first + count) from the store, as they are there. Appends their bytes, one sample after the other, to
  /// `encoded`, which is empty, and writes the number of bytes of each to `sizes`, which is `count` long.
  virtual void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) = 0;
  /// Decodes a sample that read() has read into `value`, which is value_bytes() long. Returns the number of bytes of the decoded
  /// sample. The same bytes must decode to the same value on every rank. By default copies the bytes.
  virtual std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value);
};

/// Returns a source for a file of records of equal size, after a header. Values are the records.
///
/// All of these functions throw Error(WEIR_ERR_FILE) if a file cannot be read, is of another kind, or is damaged, that is, has
/// fewer or more bytes than its header says. The sources keep their files open. Their identity() names files without their folders,
/// which nodes may have mounted elsewhere, with their sizes and times of change.
[[nodiscard]] std::shared_ptr<SampleSource> record_source(const std::string& path, std::int64_t record_bytes,
                                                          std::int64_t header_bytes = 0);
/// Returns a source for a decompressed file in the IDX format, such as MNIST's. A value is an item along the first dimension, with
/// its elements in this machine's byte order. `labels` is another such file with one integer for each item; the label then follows
/// the item as a std::int32_t, at the next multiple of four bytes.
[[nodiscard]] std::shared_ptr<SampleSource> idx_source(const std::string& path, const std::string& labels = "");
/// Does the same for a NumPy file (.npy, versions 1 to 3): an array of numbers in the order of C.
[[nodiscard]] std::shared_ptr<SampleSource> npy_source(const std::string& path, const std::string& labels = "");
/// Does the same for a data set of integers or real numbers in an HDF5 file. `labels` names another data set of the same file. If a
/// chunk has many samples, make pack_samples a multiple of their number. Only one thread of the process reads at a time, since the
/// HDF5 library may not be built for more. A program that calls that library itself while samples are read needs one that is
/// thread-safe (H5is_library_threadsafe). Throws Error(WEIR_ERR_UNSUPPORTED) in builds without HDF5.
[[nodiscard]] std::shared_ptr<SampleSource> hdf5_source(const std::string& path, const std::string& dataset,
                                                        const std::string& labels = "");
/// Returns a source for JPEG files (.jpg, .jpeg, in any case) in the subfolders of `folder`. Each subfolder is a class; the classes
/// are in the order of their names' bytes. Names that begin with a dot are left out.
///
/// A value is an image of height x width x 3 bytes (rows, pixels, red green blue), then the number of its class as a std::int32_t,
/// at the next multiple of four bytes. The image is the largest centred part of that shape, resized: the decoder first halves
/// images that are at least twice as large, then the source interpolates between pixels. The same libjpeg decodes to the same bytes
/// on every machine. Pixels are as the file stores them: an orientation in its EXIF data is not applied.
///
/// A sample that is damaged, ends early, or claims more than 2^26 pixels or 100 scans is refused. changes() asks for the size and
/// time of change of each file, with one call of the file system for each. Throws Error(WEIR_ERR_UNSUPPORTED) in builds without
/// libjpeg.
[[nodiscard]] std::shared_ptr<SampleSource> jpeg_source(const std::string& folder, int height, int width);

/// Delivers samples by number, from wherever they are. Each sample belongs to one rank, its owner: of P ranks, each owns a run of
/// about size() / P samples, in packs of SampleCacheConfig::pack_samples. The owner reads a sample when a rank first asks for it,
/// decodes it, and keeps it in memory that its node shares (level 2). It also keeps what it has read, with the whole pack, in a
/// folder of its node's own storage (level 1), where later runs find it. Memory and folder are bounded. A sample that does not fit
/// into memory is read from the folder each time; one that does not fit into the folder is read from the store.
///
/// Ranks of a node read each other's memory, without locks. Samples of other nodes travel as messages, with a lower priority than
/// gradients.
class SampleCache {
 public:
  /// Collective. Allocates all memory. Throws on all ranks if configurations or sources differ, if the memory of level 2 cannot be
  /// had, or if the folder cannot be used or has another data set of that name.
  SampleCache(const Communicator& comm, const SampleCacheConfig& config, std::shared_ptr<SampleSource> source);
  SampleCache(SampleCache&&) noexcept = default;
  SampleCache& operator=(SampleCache&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator. Finishes what is in flight.
  ~SampleCache() = default;

  /// Collective, blocking. Same as start(...).wait().
  void get(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes = {});
  /// Collective, nonblocking. Each rank asks for samples of its own, at most SampleCacheConfig::largest_batch, possibly none. Value
  /// i goes to values[i * value_bytes() ...], and its number of bytes to sizes[i]. A skipped sample has size -1 and a value of
  /// zeros. `samples` must last until the call returns; `values`, and `sizes`, which may be empty, until the operation has
  /// finished.
  ///
  /// As many as SampleCacheConfig::in_flight batches may be in flight. One more start waits for the first of them, and throws what
  /// that batch has ended with. An Operation stands for the place of its batch among these: once in_flight further batches have
  /// been started, its test and wait are about the batch that has this place then.
  ///
  /// A number outside [0, size()) on any rank is an error on every rank. So is a sample that cannot be read or decoded, unless
  /// on_error skips it; the error names the sample.
  [[nodiscard]] Operation start(std::span<const std::int64_t> samples, std::span<std::byte> values,
                                std::span<std::int64_t> sizes = {});
  /// Collective: takes the place of start() or get() on a rank that has no valid arguments for them. Bindings of other languages
  /// call it if their checks fail. The batch ends with Error(WEIR_ERR_ARGUMENT) on all ranks; its text names the rank and says
  /// `why`.
  [[nodiscard]] Operation refuse(std::string_view why);

  [[nodiscard]] std::int64_t size() const;         ///< number of samples
  [[nodiscard]] std::int64_t value_bytes() const;  ///< bytes of a decoded sample, at most
  /// Returns the rank that owns a sample.
  [[nodiscard]] int owner(std::int64_t sample) const;
  [[nodiscard]] const SampleCacheConfig& config() const;  ///< configuration in force
  /// Returns what the cache has done on this rank so far.
  [[nodiscard]] SampleCacheStatistics statistics() const;
  /// Returns, as text, how much of the data set fits into which level.
  [[nodiscard]] std::string explanation() const;
  /// Returns the number of bytes that this rank holds: its part of level 2, and what batches in flight take.
  [[nodiscard]] std::int64_t memory_bytes() const;
  [[nodiscard]] const std::shared_ptr<detail::SampleCacheImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::SampleCacheImpl> state_;
};

/// The samples that a rank works on in one step. They are in the loader's memory, valid until its next call of next().
struct SampleBatch {
  std::int64_t epoch = 0, step = 0;         ///< from 0
  std::span<const std::int64_t> samples{};  ///< their numbers; fewer than the loader's batch at the end of an epoch, possibly none
  std::span<const std::byte> values{};      ///< samples.size() x value_bytes()
  std::span<const std::int64_t> sizes{};    ///< bytes of each value; -1: skipped
  std::int64_t value_bytes = 0;

  [[nodiscard]] std::span<const std::byte> value(std::size_t i) const {
    return values.subspan(i * static_cast<std::size_t>(value_bytes), static_cast<std::size_t>(value_bytes));
  }
};

/// Goes through a data set in epochs. In each epoch every sample comes exactly once, on one rank, in an order that depends only on
/// the seed and the epoch. The loader asks for batches ahead of time, SampleCacheConfig::in_flight of them.
class SampleLoader {
 public:
  /// Collective. Throws on all ranks if configurations differ. The cache is kept as long as its loaders need it.
  SampleLoader(SampleCache& cache, const SampleLoaderConfig& config);
  SampleLoader(SampleLoader&&) noexcept = default;
  SampleLoader& operator=(SampleLoader&&) noexcept = default;
  ~SampleLoader() = default;

  /// Collective, blocking until the batch is there. Returns the next batch. At the end of an epoch returns nothing, on all ranks;
  /// the next call begins the next epoch. On a terminal, rank 0 shows the progress of the first epoch of the run.
  [[nodiscard]] std::optional<SampleBatch> next();

  [[nodiscard]] std::int64_t epoch() const;  ///< epoch of the next batch; at the end of an epoch, the epoch that ends
  [[nodiscard]] std::int64_t step() const;   ///< step of the next batch; at the end of an epoch, steps()
  [[nodiscard]] std::int64_t steps() const;  ///< number of steps of that epoch
  /// Returns, as a line of text, where the run is after the batches that next() has returned. The same on all ranks.
  [[nodiscard]] std::string position() const;
  /// Collective, blocking. Goes on from a position() of a loader over the same number of samples, on any number of ranks. What is
  /// left of its epoch comes exactly once; on the same ranks with the same batch, it comes in the same batches. From the end of an
  /// epoch it goes on with the next one, which epoch() then returns. Throws Error(WEIR_ERR_ARGUMENT) on all ranks for other text.
  void seek(std::string_view position);
  /// Returns the configuration in force.
  [[nodiscard]] const SampleLoaderConfig& config() const;

 private:
  detail::Owner<detail::SampleLoaderImpl> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
