// test_mpi_samples.cpp: samples of real processes: epochs from a file, again from level 1, with gradients beside them, and from a
// store that goes away in the middle.
#include <mpi.h>
#include <weir/mpi.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>
#include <weir/datacache.hpp>

#include "support/catch.hpp"
#include "support/shared_folder.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t samples = 500, record = 3000;

std::byte byte(std::int64_t sample, std::int64_t i) { return static_cast<std::byte>(sample * 31 + i * 7 + sample / 256); }

void write_records(const std::string& path) {
  std::vector<char> all;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    for (std::int64_t i = 0; i < record; ++i) all.push_back(static_cast<char>(byte(sample, i)));
  }
  std::ofstream(path, std::ios::binary).write(all.data(), static_cast<std::streamsize>(all.size()));
}

/// Counts how often each sample came on all ranks, and checks its bytes.
class Seen {
 public:
  void add(const SampleBatch& batch) {
    for (std::size_t i = 0; i < batch.samples.size(); ++i) {
      ++times_[static_cast<std::size_t>(batch.samples[i])];
      for (std::int64_t at = 0; at < record; ++at)
        wrong_ += batch.value(i)[static_cast<std::size_t>(at)] != byte(batch.samples[i], at);
    }
  }
  /// Collective. Returns whether each sample came once.
  [[nodiscard]] bool each_once() {
    std::vector<int> all(times_.size());
    MPI_Allreduce(times_.data(), all.data(), static_cast<int>(all.size()), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &wrong_, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return wrong_ == 0 && std::all_of(all.begin(), all.end(), [](int times) { return times == 1; });
  }

 private:
  std::vector<int> times_ = std::vector<int>(samples);
  std::int64_t wrong_ = 0;
};

std::int64_t over_ranks(std::int64_t value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return value;
}

TEST_CASE("epochs from a file, and in a later run from level 1, beside gradients") {
  const Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string file = folder.path() + "/records";
  if (comm.rank() == 0) write_records(file);
  MPI_Barrier(MPI_COMM_WORLD);
  for (const bool later : {false, true}) {
    SampleCache cache(comm, {.folder = folder.path() + "/level1", .pack_samples = 16, .threads = 2, .name = "records"},
                      record_source(file, record));
    SampleLoader loader(cache, {.batch = 8, .seed = 3, .shuffle = later ? Shuffle::node : Shuffle::global});
    AllreducePlan plan(comm, {.count = 20000, .k = 200});
    std::vector<float> gradient(20000);
    for (int epoch = 0; epoch < 2; ++epoch) {
      Seen seen;
      while (const std::optional<SampleBatch> batch = loader.next()) {
        std::iota(gradient.begin(), gradient.end(), static_cast<float>(comm.rank()));
        Operation reduced = plan.start(gradient);
        seen.add(*batch);
        reduced.wait();
      }
      REQUIRE(seen.each_once());
    }
    REQUIRE(over_ranks(cache.statistics().from_store) == (later ? 0 : samples));
    REQUIRE(over_ranks(cache.statistics().decoded) == samples);
    REQUIRE(over_ranks(cache.statistics().kept) == samples);
  }
}

TEST_CASE("a store that goes away is an error on all ranks; once it is back, the epoch goes on") {
  const Communicator comm(MPI_COMM_WORLD);
  const SharedFolder folder(comm);
  const std::string file = folder.path() + "/records", away = file + ".away";
  if (comm.rank() == 0) write_records(file);
  MPI_Barrier(MPI_COMM_WORLD);

  // The test's own store, which opens the file for each read.
  class Store final : public SampleSource {
   public:
    explicit Store(std::string path) : path_(std::move(path)) {}
    [[nodiscard]] std::int64_t size() const override { return samples; }
    [[nodiscard]] std::int64_t value_bytes() const override { return record; }
    [[nodiscard]] std::string identity() const override { return "records"; }
    void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override {
      encoded.resize(static_cast<std::size_t>(count * record));
      std::ifstream in(path_, std::ios::binary);
      in.seekg(first * record);
      if (!in.read(reinterpret_cast<char*>(encoded.data()), count * record)) throw std::runtime_error("the store is away");
      std::fill(sizes.begin(), sizes.end(), record);
    }

   private:
    std::string path_;
  };

  SampleCache cache(comm, {.memory_bytes = 0, .pack_samples = 16}, std::make_shared<Store>(file));
  SampleLoader loader(cache, {.batch = 5});
  Seen seen;
  int errors = 0;
  for (bool more = true; more;) {
    if (loader.step() == 3 && errors == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (comm.rank() == 0) std::filesystem::rename(file, away);
      MPI_Barrier(MPI_COMM_WORLD);
    }
    try {
      const std::optional<SampleBatch> batch = loader.next();
      more = batch.has_value();
      if (more) seen.add(*batch);
    } catch (const Error& error) {
      REQUIRE(std::string(error.what()).find("the store is away") != std::string::npos);
      if (++errors < 3) continue;
      MPI_Barrier(MPI_COMM_WORLD);
      if (comm.rank() == 0) std::filesystem::rename(away, file);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
  REQUIRE(errors == 3);
  REQUIRE(seen.each_once());
}

}  // namespace
}  // namespace weir::test
