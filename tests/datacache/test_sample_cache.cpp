// Every rank gets the samples that it asks for, from any place. A sample that cannot be read is an error on all ranks, or is
// skipped.
#include <chrono>
#include <thread>
#include <weir/datacache.hpp>

#include "datacache/made_samples.hpp"
#include "datacache/ownership.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

struct Job {
  int ranks;
  const char* machine;
  bool shared = true;
};
const std::vector<Job> jobs = {{1, ""},          {2, ""},        {3, "node:3 rank:1"},  {4, "node:2 rank:2"},
                               {5, "nodes:2,3"}, {7, "", false}, {33, "node:11 rank:3"}};

RankOptions options_of(const Job& job) {
  RankOptions options;
  options.machine = job.machine;
  options.settings.shared_memory = job.shared;
  return options;
}

TEST_CASE("packs are divided in a row, all of them, as evenly as can be") {
  for (const std::int64_t samples : {0, 1, 5, 64, 65, 1000}) {
    for (const std::int64_t pack : {1, 3, 64, 2000}) {
      for (const std::int64_t ranks : {1, 2, 3, 7, 33}) {
        const datacache::Ownership ownership(samples, pack, ranks);
        std::int64_t next = 0, least = samples, most = 0;
        for (std::int64_t place = 0; place < ranks; ++place) {
          const datacache::SampleRange range = ownership.owned(place);
          REQUIRE(range.first == next);
          next += range.count;
          least = std::min(least, range.count);
          most = std::max(most, range.count);
          for (std::int64_t sample = range.first; sample < next; ++sample) REQUIRE(ownership.owner(sample) == place);
        }
        REQUIRE(next == samples);
        REQUIRE(most - least <= 2 * pack);
      }
    }
  }
}

struct Variant {
  std::int64_t samples, value_bytes;
  bool variable;
  std::int64_t memory_bytes;
  int pack_samples, in_flight, threads;
  std::int64_t batch;
};
const std::vector<Variant> variants = {
    {500, 24, false, -1, 16, 2, 1, 20}, {500, 24, false, 0, 16, 2, 2, 20},    {500, 24, false, 6000, 16, 3, 3, 20},
    {300, 100, true, -1, 7, 2, 2, 9},   {300, 100, true, 9000, 7, 1, 1, 9},   {1, 3, false, -1, 64, 2, 1, 4},
    {3, 1, false, -1, 1, 64, 1, 1},     {200, 1000, true, 0, 1000, 9, 2, 50}, {100, 70000, false, -1, 3, 2, 2, 10}};

TEST_CASE("every rank gets the samples that it asks for") {
  for (const Job& job : jobs) {
    for (const Variant& v : variants) {
      RankCheck check;
      run_ranks(
          job.ranks,
          [&](Communicator& comm) {
            const auto source = std::make_shared<MadeSamples>(v.samples, v.value_bytes, v.variable);
            SampleCache cache(comm,
                              {.memory_bytes = v.memory_bytes,
                               .largest_batch = v.batch,
                               .in_flight = v.in_flight,
                               .pack_samples = v.pack_samples,
                               .threads = v.threads},
                              source);
            Dice dice(static_cast<std::uint64_t>(comm.rank()) + 1);
            constexpr int rounds = 6;
            std::vector<std::vector<std::int64_t>> samples(rounds), sizes(rounds);
            std::vector<std::vector<std::byte>> values(rounds);
            std::vector<Operation> operations;
            for (int round = 0; round < rounds; ++round) {
              const auto r = static_cast<std::size_t>(round);
              // In the second round all ask for the same, in the third all ask one owner, and in the fourth some ask for nothing.
              std::int64_t count = dice.between(0, v.batch);
              if (round == 3 && comm.rank() % 2 == 0) count = 0;
              for (std::int64_t i = 0; i < count; ++i)
                samples[r].push_back(round == 1   ? i % v.samples
                                     : round == 2 ? v.samples - 1 - i % std::min<std::int64_t>(v.samples, 5)
                                                  : dice.between(0, v.samples - 1));
              sizes[r].resize(samples[r].size());
              values[r].resize(samples[r].size() * static_cast<std::size_t>(v.value_bytes));
              operations.push_back(cache.start(samples[r], values[r], sizes[r]));
            }
            for (Operation& operation : operations) operation.wait();
            for (std::size_t round = 0; round < rounds; ++round) {
              for (std::size_t i = 0; i < samples[round].size(); ++i) {
                const auto value = std::span<const std::byte>(values[round]).subspan(i * static_cast<std::size_t>(v.value_bytes));
                const std::string wrong = wrong_value(*source, samples[round][i], value, sizes[round][i]);
                check.that(wrong.empty(), wrong);
              }
            }
            const SampleCacheStatistics statistics = cache.statistics();
            check.that(statistics.batches == rounds, "batches");
            check.that(statistics.from_node + statistics.from_ranks <= statistics.asked, "where samples came from");
            if (v.memory_bytes == 0) check.that(statistics.kept == 0 && statistics.from_node == 0, "kept without memory");
          },
          options_of(job));
      INFO("P " << job.ranks << " '" << job.machine << "' samples " << v.samples << " of " << v.value_bytes << " memory "
                << v.memory_bytes);
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("a sample that several ranks want while it loads is decoded once") {
  RankCheck check;
  run_ranks(4, [&](Communicator& comm) {
    const auto source = std::make_shared<MadeSamples>(8, 24);
    source->cannot_decode = [](std::int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return false;
    };
    SampleCache cache(comm, {.largest_batch = 8, .pack_samples = 1, .threads = 4}, source);
    const std::vector<std::int64_t> samples = {0, 1, 2, 3, 4, 5, 6, 7};
    std::vector<std::byte> values(8 * 24);
    for (int epoch = 0; epoch < 2; ++epoch) cache.get(samples, values);
    check.that(cache.statistics().decoded == 2, "decoded " + std::to_string(cache.statistics().decoded) + " times, not its own 2");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("once all samples are in memory, nothing is read, decoded or allocated") {
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              const auto source = std::make_shared<MadeSamples>(400, 48);
              SampleCache cache(comm, {.largest_batch = 100, .pack_samples = 10}, source);
              std::vector<std::int64_t> samples(100);
              std::vector<std::byte> values(100 * 48);
              const auto round = [&] {
                for (std::int64_t quarter = 0; quarter < 4; ++quarter) {
                  for (std::size_t i = 0; i < 100; ++i)
                    samples[i] = (quarter + static_cast<std::int64_t>(i) * 4 + comm.rank()) % 400;
                  cache.get(samples, values);
                }
              };
              round();
              round();
              const int reads = source->reads;
              const SampleCacheStatistics before = cache.statistics();
              check.that(before.kept == 100, "own samples in memory");
              const std::int64_t earlier = allocations_of_this_thread();
              round();
              const std::int64_t allocations = allocations_of_this_thread() - earlier;
              check.that(allocations == 0, "allocations: " + std::to_string(allocations));
              const SampleCacheStatistics after = cache.statistics();
              check.that(source->reads == reads && after.decoded == before.decoded, "read or decoded again");
              check.that(after.from_node - before.from_node == 200, "from memory of the node");
              check.that(after.from_ranks - before.from_ranks == 200, "from other nodes");
              check.that(after.asked - before.asked == 400, "asked for");
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("without level 1 a pack is read from the store once") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    const auto source = std::make_shared<MadeSamples>(128, 8);
    SampleCache cache(comm, {.largest_batch = 1, .pack_samples = 32}, source);
    std::vector<std::byte> value(8);
    for (std::int64_t i = 0; i < 128; ++i) {
      const std::int64_t sample = (i * 37 + comm.rank()) % 128;
      cache.get(std::span(&sample, 1), value);
    }
    check.that(source->reads == 2, "reads: " + std::to_string(source->reads));
    check.that(cache.statistics().from_store == 64 && cache.statistics().decoded == 64, "samples read and decoded");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("a sample that cannot be had is an error on all ranks, which names it; the next batch goes on") {
  for (const Job& job : jobs) {
    for (const bool reading : {true, false}) {
      SameErrors errors(job.ranks);
      run_ranks(
          job.ranks,
          [&](Communicator& comm) {
            const auto source = std::make_shared<MadeSamples>(100, 8);
            (reading ? source->cannot_read : source->cannot_decode) = [](std::int64_t sample) { return sample == 77; };
            SampleCache cache(comm, {.largest_batch = 4, .pack_samples = 4}, source);
            std::vector<std::int64_t> samples = {1, 77, 2}, sizes(3);
            if (comm.rank() != comm.size() - 1) samples[1] = 76;
            std::vector<std::byte> values(24);
            errors.expect(comm.rank(), WEIR_ERR_FILE, reading ? "sample 77: the store is away" : "sample 77: it is no picture",
                          [&] { cache.get(samples, values, sizes); });
            samples[1] = 78;
            cache.get(samples, values, sizes);
            for (std::size_t i = 0; i < 3; ++i) {
              const std::string wrong = wrong_value(*source, samples[i], std::span(values).subspan(8 * i), sizes[i]);
              errors.check().that(wrong.empty(), wrong);
            }
          },
          options_of(job));
      INFO("P " << job.ranks);
      REQUIRE(errors.failure() == "");
    }
  }
}

TEST_CASE("a sample that cannot be had is skipped, or tried again") {
  for (const Job& job : jobs) {
    RankCheck check;
    run_ranks(
        job.ranks,
        [&](Communicator& comm) {
          const std::vector<std::int64_t> samples = {1, 77, 2, 50};
          std::vector<std::int64_t> sizes(4);
          std::vector<std::byte> values(32);
          const auto source = std::make_shared<MadeSamples>(100, 8);
          source->cannot_decode = [](std::int64_t sample) { return sample == 77; };
          SampleCache cache(comm, {.largest_batch = 4, .pack_samples = 4, .on_error = SampleErrors::skip}, source);
          std::fill(values.begin(), values.end(), std::byte{1});
          cache.get(samples, values, sizes);
          check.that(sizes[1] == -1 && values[8] == std::byte{0} && values[15] == std::byte{0}, "a skipped sample");
          check.that(wrong_value(*source, 2, std::span(values).subspan(16), sizes[2]).empty(), "the sample after it");
          check.that(cache.statistics().skipped == 1, "counted");

          const auto patchy = std::make_shared<MadeSamples>(100, 8);
          std::atomic<int> failures{0};
          patchy->cannot_read = [&](std::int64_t sample) { return sample == 77 && failures++ < 2; };
          SampleCache retrying(comm, {.largest_batch = 4, .pack_samples = 1, .on_error = SampleErrors::retry}, patchy);
          retrying.get(samples, values, sizes);
          check.that(wrong_value(*patchy, 77, std::span(values).subspan(8), sizes[1]).empty(), "a sample after retries");
          check.that(retrying.statistics().retried == (retrying.owner(77) == comm.rank() ? 2 : 0), "retries");
        },
        options_of(job));
    INFO("P " << job.ranks);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("the next sample of the batch stands in for one that cannot be had") {
  for (const Job& job : jobs) {
    RankCheck check;
    run_ranks(
        job.ranks,
        [&](Communicator& comm) {
          const auto source = std::make_shared<MadeSamples>(100, 8);
          source->cannot_decode = [](std::int64_t sample) { return sample == 77 || sample == 50; };
          SampleCache cache(comm, {.largest_batch = 4, .pack_samples = 4, .on_error = SampleErrors::substitute}, source);
          std::vector<std::int64_t> sizes(4);
          std::vector<std::byte> values(32);
          const auto is = [&](std::size_t place, std::int64_t sample) {
            check.that(wrong_value(*source, sample, std::span(values).subspan(8 * place, 8), sizes[place]).empty(),
                       "place " + std::to_string(place));
          };
          cache.get(std::vector<std::int64_t>{77, 1, 2, 50}, values, sizes);
          is(0, 1);
          is(1, 1);
          is(2, 2);
          is(3, 1);
          check.that(cache.statistics().skipped == 2, "counted");
          cache.get(std::vector<std::int64_t>{77, 50}, std::span(values).first(16), std::span(sizes).first(2));
          check.that(sizes[0] == -1 && sizes[1] == -1 && values[0] == std::byte{0}, "a batch that has none");
        },
        options_of(job));
    INFO("P " << job.ranks);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("samples of a pack that cannot be read are read alone, which counts as trying again") {
  for (const bool folder : {false, true}) {
    const TemporaryFolder place;
    RankCheck check;
    std::atomic<std::int64_t> retried{0};
    run_ranks(2, [&](Communicator& comm) {
      const auto source = std::make_shared<MadeSamples>(8, 8);
      source->cannot_read = [](std::int64_t sample) { return sample == 6; };
      SampleCacheConfig config{.largest_batch = 8, .pack_samples = 4, .on_error = SampleErrors::skip};
      if (folder) config.folder = place.path() + "/cache";
      SampleCache cache(comm, config, source);
      const std::vector<std::int64_t> samples = {0, 1, 2, 3, 4, 5, 6, 7};
      std::vector<std::int64_t> sizes(8);
      std::vector<std::byte> values(64);
      if (comm.rank() == 0) {
        cache.get(samples, values, sizes);
        check.that(sizes == std::vector<std::int64_t>{8, 8, 8, 8, 8, 8, -1, 8}, "which are there");
      } else {
        cache.get({}, {});
      }
      retried += cache.statistics().retried;
    });
    REQUIRE(check.failure() == "");
    REQUIRE(retried == 4);
  }
}

TEST_CASE("what is thrown that is no std::exception is an error of the sample, too") {
  RankCheck check;
  SameErrors errors(2);
  run_ranks(2, [&](Communicator& comm) {
    const auto source = std::make_shared<MadeSamples>(100, 8);
    const std::vector<std::int64_t> samples = {1, 77, 2, 50};
    std::vector<std::int64_t> sizes(4);
    std::vector<std::byte> values(32);
    source->cannot_read = [](std::int64_t sample) -> bool { return sample == 77 ? throw 1 : false; };
    SampleCache cache(comm, {.largest_batch = 4, .pack_samples = 4}, source);
    errors.expect(comm.rank(), WEIR_ERR_FILE, "sample 77: its source has thrown something that is no std::exception",
                  [&] { cache.get(samples, values, sizes); });
    SampleCache skipping(comm, {.largest_batch = 4, .pack_samples = 4, .on_error = SampleErrors::skip}, source);
    skipping.get(samples, values, sizes);
    check.that(sizes == std::vector<std::int64_t>{8, -1, 8, 8}, "the others are there");

    const auto patchy = std::make_shared<MadeSamples>(100, 8);
    std::atomic<int> failures{0};
    patchy->cannot_decode = [&](std::int64_t sample) -> bool { return sample == 77 && failures++ < 1 ? throw "x" : false; };
    SampleCache retrying(comm, {.largest_batch = 4, .pack_samples = 1, .on_error = SampleErrors::retry}, patchy);
    retrying.get(samples, values, sizes);
    check.that(wrong_value(*patchy, 77, std::span(values).subspan(8), sizes[1]).empty(), "a sample after a retry");
    check.that(retrying.statistics().retried == (retrying.owner(77) == comm.rank() ? 1 : 0), "retries");
  });
  REQUIRE(errors.failure() == "");
  REQUIRE(check.failure() == "");
}

TEST_CASE("wrong calls and configurations are the same error on all ranks") {
  const auto source = [](std::int64_t count = 100) { return std::make_shared<MadeSamples>(count, 8); };
  for (const Job& job : {Job{1, ""}, Job{3, "node:3 rank:1"}, Job{4, "node:2 rank:2"}}) {
    const auto expect = [&](weir_status status, const char* part, const std::function<void(Communicator&)>& body) {
      INFO("P " << job.ranks << ": " << part);
      REQUIRE(unlike_errors(job.ranks, status, part, body, options_of(job)) == "");
    };
    const auto get = [&](std::vector<std::int64_t> samples, std::size_t bytes, std::size_t sizes) {
      return [=](Communicator& comm) {
        SampleCache cache(comm, {.largest_batch = 4}, source());
        std::vector<std::byte> values(bytes);
        std::vector<std::int64_t> size(sizes);
        if (comm.rank() + 1 < comm.size()) {  // the others call rightly
          values.resize(8);
          size.resize(1);
          const std::int64_t one = 5;
          cache.get(std::span(&one, 1), values, size);
        } else {
          cache.get(samples, values, size);
        }
      };
    };
    expect(WEIR_ERR_ARGUMENT, "there is no sample 100, which is asked for at place 1: there are 100", get({1, 100}, 16, 0));
    expect(WEIR_ERR_ARGUMENT, "there is no sample -1", get({-1}, 8, 1));
    expect(WEIR_ERR_ARGUMENT, "5 samples are asked for at once: largest_batch is 4", get({1, 2, 3, 4, 5}, 40, 0));
    expect(WEIR_ERR_ARGUMENT, "there are 15 bytes for the values of 2 samples: they take 8 each", get({1, 2}, 15, 0));
    expect(WEIR_ERR_ARGUMENT, "there are 3 sizes for 2 samples", get({1, 2}, 16, 3));
    expect(WEIR_ERR_ARGUMENT, "in_flight is 65", [&](Communicator& comm) { SampleCache(comm, {.in_flight = 65}, source()); });
    expect(WEIR_ERR_ARGUMENT, "name is '../x'", [&](Communicator& comm) { SampleCache(comm, {.name = "../x"}, source()); });
    expect(WEIR_ERR_ARGUMENT, "there is no source", [&](Communicator& comm) { SampleCache(comm, {}, nullptr); });
    expect(WEIR_ERR_ARGUMENT, "value_bytes() is 0",
           [&](Communicator& comm) { SampleCache(comm, {}, std::make_shared<MadeSamples>(3, 0)); });
    constexpr std::int64_t huge = std::int64_t{1} << 40;
    expect(WEIR_ERR_ARGUMENT, "largest_batch is 16777216",
           [&](Communicator& comm) { SampleCache(comm, {.largest_batch = 1 << 24}, std::make_shared<MadeSamples>(3, huge)); });
    expect(WEIR_ERR_ARGUMENT, "together they must not have more than 2^60",
           [&](Communicator& comm) { SampleCache(comm, {}, std::make_shared<MadeSamples>(huge, huge)); });
    if (job.ranks == 1) continue;
    expect(WEIR_ERR_MISMATCH, "number of samples",
           [&](Communicator& comm) { SampleCache(comm, {}, source(100 + comm.rank() / 2)); });
    expect(WEIR_ERR_MISMATCH, "data set", [&](Communicator& comm) {
      const auto other = source();
      if (comm.rank() == 1) other->identity_more = " newer";
      SampleCache(comm, {}, other);
    });
    expect(WEIR_ERR_MISMATCH, "pack_samples",
           [&](Communicator& comm) { SampleCache(comm, {.pack_samples = comm.rank() == 0 ? 3 : 4}, source()); });
  }
}

TEST_CASE("a cache may end with batches in flight") {
  for (const Job& job : jobs) {
    run_ranks(
        job.ranks,
        [&](Communicator& comm) {
          std::vector<std::byte> values(80);
          const auto source = std::make_shared<MadeSamples>(100, 8);
          std::vector<std::int64_t> samples = {9, 19, 29, 39, 49, 59, 69, 79, 89, 99};
          SampleCache cache(comm, {.largest_batch = 10, .pack_samples = 1}, source);
          const Operation left = cache.start(samples, values);
          { SampleCache other(comm, {.largest_batch = 10}, source); }
        },
        options_of(job));
  }
}

}  // namespace
}  // namespace weir::test
