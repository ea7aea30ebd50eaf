// More than 2^32 elements in one model: 17 GB of gradients per rank. Most tensors are the same 64 MiB of memory. Schemes that copy
// gradients or keep residuals would need all of the memory.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <vector>
#include <weir/fusion.hpp>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t large = std::int64_t{1} << 24, small = 1000;  // elements of a tensor
constexpr int copies = 264, ranks = 2;
static_assert(copies * large > std::int64_t{1} << 32);

/// Maps `copies` arrays of zeros one after another, all to the memory of one array.
class SharedArrays {
 public:
  SharedArrays() {
    const int file = memfd_create("gradients", 0);
    if (file < 0 || ftruncate(file, bytes) != 0) throw std::runtime_error("no memory file");
    void* const all = mmap(nullptr, copies * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::runtime_error("no addresses");
    begin_ = static_cast<float*>(all);
    for (int i = 0; i < copies; ++i) {
      if (mmap(of(i).data(), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        throw std::runtime_error("no mapping");
    }
    close(file);
  }
  ~SharedArrays() { munmap(begin_, copies * bytes); }
  SharedArrays(const SharedArrays&) = delete;
  SharedArrays& operator=(const SharedArrays&) = delete;

  [[nodiscard]] std::span<float> of(int copy) const { return {begin_ + copy * large, static_cast<std::size_t>(large)}; }

 private:
  static constexpr std::int64_t bytes = large * 4;
  float* begin_ = nullptr;
};

using Entries = std::map<std::int64_t, float>;

/// Returns a rank's entries in a tensor of `count` elements. `number` makes them differ between tensors.
Entries entries_of(int rank, std::int64_t count, int k, int number) {
  Entries entries;
  for (int j = 0; j < k; ++j) entries[(count / k * j + 7 * number + 3 * rank) % count] = static_cast<float>(1 + j + 100 * number);
  return entries;
}
void fill(std::span<float> array, const Entries& entries) {
  for (const auto& [index, value] : entries) array[static_cast<std::size_t>(index)] = value;
}
Entries average_of(std::int64_t count, int k, int number) {
  Entries sum;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const auto& [index, value] : entries_of(rank, count, k, number)) sum[index] += value / ranks;
  }
  return sum;
}
/// Returns whether the array holds these entries and zeros elsewhere.
bool holds(std::span<const float> array, const Entries& entries) {
  for (std::int64_t i = 0; i < std::ssize(array); ++i) {
    const auto entry = entries.find(i);
    if (array[static_cast<std::size_t>(i)] != (entry == entries.end() ? 0 : entry->second)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a model of more than 2^32 elements, in one buffer as far as indices reach", "[fusion]") {
  if (test_every() > 1) {
    WARN("left out where TEST_EVERY is set: 2^32 elements take minutes there");
    return;
  }
  constexpr int k = 5;
  std::vector<FusedTensor> tensors;
  std::vector<int> probes;
  for (int i = 0; i < copies; ++i) {
    tensors.push_back({.name = "large" + std::to_string(i), .count = large, .k = k});
    if (i != 0 && i != copies / 2 && i != copies - 1) continue;
    probes.push_back(static_cast<int>(tensors.size()));
    tensors.push_back({.name = "small" + std::to_string(i), .count = small, .k = k});
  }
  for (const FusionScheme scheme : {FusionScheme::ahead_inter, FusionScheme::ahead_tapered}) {
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      FusedAllreduce fused(comm,
                           {.scheme = scheme,
                            .buffer_bytes = std::int64_t{1} << 40,
                            .algorithm = "topk_allgather",
                            .error_feedback = Feedback::none},
                           tensors);
      const SharedArrays arrays;
      // Values are the same on all ranks, and equal their average, because updates may be written before other tensors in the same
      // memory are handed in.
      fill(arrays.of(0), entries_of(0, large, k, 0));
      std::vector<std::vector<float>> own(probes.size(), std::vector<float>(small));
      for (std::size_t i = 0; i < probes.size(); ++i) fill(own[i], entries_of(comm.rank(), small, k, static_cast<int>(i) + 1));
      int copy = copies;
      std::size_t probe = probes.size();
      for (int tensor = fused.size() - 1; tensor >= 0; --tensor) {
        const bool is_probe = probe > 0 && probes[probe - 1] == tensor;
        fused.ready(tensor, is_probe ? std::span<float>(own[--probe]) : arrays.of(--copy));
      }
      fused.wait_all();
      const FusionStatistics& statistics = fused.statistics();
      const bool few = scheme == FusionScheme::ahead_inter ? statistics.exchanges == 2 : statistics.exchanges >= 2;
      check.that(few, "exchanges: " + std::to_string(statistics.exchanges));
      check.that(statistics.tensors_missing == 0, "missing: " + std::to_string(statistics.tensors_missing));
      check.that(statistics.selected_local == fused.size() * k, "selected: " + std::to_string(statistics.selected_local));
      for (std::size_t i = 0; i < probes.size(); ++i)
        check.that(holds(own[i], average_of(small, k, static_cast<int>(i) + 1)), "probe " + std::to_string(i));
      check.that(holds(arrays.of(0), entries_of(0, large, k, 0)), "large tensors");
    });
    INFO("scheme " << static_cast<int>(scheme));
    REQUIRE(check.failure() == "");
  }
}

}  // namespace weir::test
