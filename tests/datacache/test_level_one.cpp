// test_level_one.cpp: sample caches with a folder: what later runs find, and how they handle a folder that is too small, damaged or
// of other data.
#include <weir/datacache.hpp>

#include "datacache/made_samples.hpp"
#include "datacache/packs.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 3, pack_samples = 8;
constexpr std::int64_t samples = 100, value_bytes = 40, all_packs = 13;

SampleCacheConfig config_of(const TemporaryFolder& folder) {
  return {.folder = folder.path() + "/cache", .largest_batch = samples, .pack_samples = pack_samples, .name = "made"};
}

/// Runs a job in which every rank asks for all samples `epochs` times. Returns the sum of the ranks' statistics.
SampleCacheStatistics run(
    const SampleCacheConfig& config, int epochs = 1, const std::function<void(MadeSamples&)>& spoil = [](MadeSamples&) {}) {
  RankCheck check;
  SampleCacheStatistics sum;
  std::mutex mutex;
  run_ranks(ranks, [&](Communicator& comm) {
    const auto source = std::make_shared<MadeSamples>(samples, value_bytes, true);
    spoil(*source);
    SampleCache cache(comm, config, source);
    std::vector<std::int64_t> wanted(samples), sizes(samples);
    std::iota(wanted.begin(), wanted.end(), std::int64_t{0});
    std::vector<std::byte> values(samples * value_bytes);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      cache.get(wanted, values, sizes);
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (source->cannot_read && source->cannot_read(wanted[i]) && sizes[i] == -1) continue;
        const auto value = std::span<const std::byte>(values).subspan(i * value_bytes);
        const std::string wrong = wrong_value(*source, wanted[i], value, sizes[i]);
        check.that(wrong.empty(), wrong);
      }
    }
    const SampleCacheStatistics mine = cache.statistics();
    const std::lock_guard lock(mutex);
    sum.from_folder += mine.from_folder;
    sum.from_store += mine.from_store;
    sum.decoded += mine.decoded;
    sum.damaged += mine.damaged;
    sum.skipped += mine.skipped;
    sum.store_bytes_read += mine.store_bytes_read;
  });
  CHECK(check.failure() == "");
  return sum;
}

}  // namespace

TEST_CASE("a later run reads nothing from the store", "[datacache]") {
  for (const std::int64_t memory : {-1, 0}) {
    const TemporaryFolder folder;
    SampleCacheConfig config = config_of(folder);
    config.memory_bytes = memory;
    config.threads = 2;
    const SampleCacheStatistics first = run(config, 2);
    CHECK(first.from_store == samples);
    CHECK(pack_files(config.folder).size() == all_packs);
    const SampleCacheStatistics later = run(config, 2);
    CHECK(later.from_store == 0);
    CHECK(later.from_folder == later.decoded);
    CHECK(later.damaged == 0);
  }
}

TEST_CASE("what is damaged is read from the store, and only that", "[datacache]") {
  const TemporaryFolder folder;
  const SampleCacheConfig config = config_of(folder);
  (void)run(config);
  const std::string pack = config.folder + "/made/pack-5", whole = contents_of(pack);
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  set_contents(pack, damaged);
  LogLines log;
  const SampleCacheStatistics later = run(config);
  CHECK(later.damaged == 1);
  CHECK(later.from_store == pack_samples);
  CHECK_THAT(log.all(), Catch::Contains("made/pack-5 is damaged"));
  CHECK(contents_of(pack) == whole);
}

TEST_CASE("a folder with room for a few packs: others are not read for the sake of one sample", "[datacache]") {
  const TemporaryFolder folder;
  SampleCacheConfig config = config_of(folder);
  config.folder_bytes = 1500;
  config.memory_bytes = 0;
  constexpr int epochs = 5;
  const SampleCacheStatistics counts = run(config, epochs);
  CHECK(bytes_on_disk(config.folder) <= 1500);
  CHECK(counts.from_folder > 0);
  // From time to time a rank tries whether there is room again.
  CHECK(counts.from_store <= counts.decoded + 2 * all_packs * pack_samples);
}

TEST_CASE("a sample that cannot be read costs only itself", "[datacache]") {
  const TemporaryFolder folder;
  SampleCacheConfig config = config_of(folder);
  config.on_error = SampleErrors::skip;
  const auto spoil = [](MadeSamples& source) { source.cannot_read = [](std::int64_t sample) { return sample == 42; }; };
  CHECK(run(config, 1, spoil).skipped == ranks);
  CHECK(pack_files(config.folder).size() == all_packs - 1);
  CHECK(run(config).from_store == pack_samples);  // it can, now
  CHECK(pack_files(config.folder).size() == all_packs);
}

TEST_CASE("what cannot be a folder of these data is refused on all ranks", "[datacache]") {
  const TemporaryFolder folder;
  const SampleCacheConfig config = config_of(folder);
  (void)run(config);
  const auto refusal = [&](weir_status status, const std::string& part, const SampleCacheConfig& wanted,
                           const std::string& identity = "") {
    return unlike_errors(ranks, status, part, [&](Communicator& comm) {
      const auto source = std::make_shared<MadeSamples>(samples, value_bytes, true);
      source->identity_more = identity;
      SampleCache(comm, wanted, source);
    });
  };
  CHECK(refusal(WEIR_ERR_MISMATCH, "'made' has other data", config, " anew") == "");
  SampleCacheConfig other = config;
  other.pack_samples = 9;
  CHECK(refusal(WEIR_ERR_MISMATCH, "in packs of 8", other) == "");
  other = config;
  other.folder = folder.path() + "/none/cache";
  CHECK(refusal(WEIR_ERR_FILE, "there is no folder", other) == "");
  other.folder = "/proc/cache";
  CHECK(refusal(WEIR_ERR_FILE, "/proc/cache", other) == "");
  other = config;
  other.name = ".hidden";
  CHECK(refusal(WEIR_ERR_ARGUMENT, "name", other) == "");
}

}  // namespace weir::test
