// Epochs have every sample once, in an order independent of timing. A loader can continue from the middle of an epoch.
#include <map>
#include <mutex>
#include <weir/datacache.hpp>

#include "datacache/made_samples.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

struct Job {
  int ranks;
  const char* machine;
};
constexpr std::array jobs = {Job{1, ""}, Job{2, ""}, Job{3, "node:3 rank:1"}, Job{5, "nodes:2,3"}, Job{8, "node:2 rank:4"}};
constexpr std::array shuffles = {Shuffle::none, Shuffle::global, Shuffle::node};

/// The samples that all ranks took, by step.
class Taken {
 public:
  void add(const SampleBatch& batch, int rank) {
    const std::scoped_lock lock(mutex_);
    for (const std::int64_t sample : batch.samples) {
      ++times_[sample];
      where_.push_back({batch.epoch, batch.step, rank, sample});
    }
  }
  [[nodiscard]] bool each_once(std::int64_t samples) const {
    if (std::ssize(times_) != samples) return false;
    return std::all_of(times_.begin(), times_.end(), [](const auto& item) { return item.second == 1; });
  }
  [[nodiscard]] std::vector<std::array<std::int64_t, 4>> where() {
    std::sort(where_.begin(), where_.end());
    return where_;
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, int> times_;
  std::vector<std::array<std::int64_t, 4>> where_;
};

std::string check_values(const MadeSamples& source, const SampleBatch& batch) {
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    if (const std::string wrong = wrong_value(source, batch.samples[i], batch.value(i), batch.sizes[i]); !wrong.empty())
      return wrong;
  }
  return {};
}

TEST_CASE("each epoch brings every sample once, with its value, in the same order each time") {
  for (const Job& job : jobs) {
    for (const Shuffle shuffle : shuffles) {
      for (const std::int64_t samples : {1, 50, 217}) {
        std::vector<std::array<std::int64_t, 4>> before;
        for (const std::uint64_t seed : {0u, 9u}) {  // of message order
          Taken first, second;
          RankCheck check;
          run_ranks(job.ranks,
                    [&](Communicator& comm) {
                      const auto source = std::make_shared<MadeSamples>(samples, 20, true);
                      SampleCache cache(comm, {.largest_batch = 8, .in_flight = seed == 0 ? 1 : 3, .pack_samples = 5}, source);
                      SampleLoader loader(cache, {.batch = 7, .seed = 4, .shuffle = shuffle});
                      for (int epoch = 0; epoch < 2; ++epoch) {
                        std::int64_t steps = 0;
                        while (const std::optional<SampleBatch> batch = loader.next()) {
                          const std::string wrong = check_values(*source, *batch);
                          check.that(wrong.empty(), wrong);
                          check.that(batch->epoch == epoch && batch->step == steps, "epoch and step");
                          (epoch == 0 ? first : second).add(*batch, comm.rank());
                          ++steps;
                          check.that(loader.step() == steps, "step of the loader");
                        }
                        check.that(loader.steps() == steps, "steps of the epoch");
                      }
                    },
                    {.seed = seed, .machine = job.machine});
          INFO("P " << job.ranks << " shuffle " << static_cast<int>(shuffle) << " samples " << samples);
          REQUIRE(check.failure() == "");
          REQUIRE(first.each_once(samples));
          REQUIRE(second.each_once(samples));
          if (seed == 0)
            before = first.where();
          else
            REQUIRE(first.where() == before);
        }
      }
    }
  }
}

TEST_CASE("a data set without samples has epochs without steps") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    SampleCache cache(comm, {}, std::make_shared<MadeSamples>(0, 8));
    SampleLoader loader(cache, {});
    for (int i = 0; i < 3; ++i) check.that(!loader.next().has_value(), "a batch of nothing");
    cache.get({}, {});
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("other ranks go on in the middle of an epoch") {
  for (const Shuffle shuffle : shuffles) {
    for (const Job& other : jobs) {
      Taken taken;
      RankCheck check;
      std::string position;
      const auto source = std::make_shared<MadeSamples>(200, 8);
      run_ranks(5,
                [&](Communicator& comm) {
                  SampleCache cache(comm, {.pack_samples = 5}, source);
                  SampleLoader loader(cache, {.batch = 6, .seed = 4, .shuffle = shuffle});
                  for (int i = 0; i < 3; ++i) taken.add(*loader.next(), comm.rank());
                  if (comm.rank() == 4) position = loader.position();
                },
                {.machine = "nodes:2,3"});
      run_ranks(other.ranks,
                [&](Communicator& comm) {
                  SampleCache cache(comm, {.pack_samples = 5}, source);
                  SampleLoader loader(cache, {.batch = 6, .seed = 4, .shuffle = shuffle});
                  (void)loader.next();  // a run that has begun may be sent elsewhere
                  loader.seek(position);
                  check.that(loader.position() == position || other.ranks != 5, "the position it was sent to");
                  while (const std::optional<SampleBatch> batch = loader.next()) taken.add(*batch, comm.rank());
                  check.that(loader.next()->epoch == 1, "the next epoch");
                },
                {.machine = other.machine});
      INFO("shuffle " << static_cast<int>(shuffle) << " then P " << other.ranks);
      REQUIRE(check.failure() == "");
      REQUIRE(taken.each_once(200));
    }
  }
}

TEST_CASE("from the end of an epoch a loader goes on with the next one") {
  for (const Shuffle shuffle : shuffles) {
    for (const Job& other : jobs) {
      for (const bool behind : {false, true}) {  // the position is taken after the last batch, or once no batch follows it
        std::string position;
        std::array<Taken, 3> taken;
        RankCheck check;
        const auto source = std::make_shared<MadeSamples>(50, 8);
        const auto run = [&](int ranks, const char* machine, auto&& body) {
          run_ranks(ranks,
                    [&](Communicator& comm) {
                      SampleCache cache(comm, {.pack_samples = 5}, source);
                      SampleLoader loader(cache, {.batch = 6, .seed = 4, .shuffle = shuffle});
                      body(comm, loader);
                    },
                    {.machine = machine});
        };
        run(5, "nodes:2,3", [&](Communicator& comm, SampleLoader& loader) {
          for (std::int64_t left = loader.steps() + (behind ? 1 : 0); left > 0; --left) (void)loader.next();
          if (comm.rank() == 4) position = loader.position();
        });
        run(other.ranks, other.machine, [&](Communicator& comm, SampleLoader& loader) {
          loader.seek(position);
          check.that(loader.epoch() == 1 && loader.step() == 0, "where seek has led to");
          std::int64_t passes = 0;
          for (std::int64_t epoch = loader.epoch(); epoch < 3; ++epoch, ++passes) {
            while (const std::optional<SampleBatch> batch = loader.next()) {
              check.that(batch->epoch == epoch, "epoch of a batch");
              taken[static_cast<std::size_t>(epoch)].add(*batch, comm.rank());
            }
          }
          check.that(passes == 2, "passes");
        });
        INFO("shuffle " << static_cast<int>(shuffle) << " then P " << other.ranks << " behind " << behind);
        REQUIRE(check.failure() == "");
        REQUIRE(taken[1].each_once(50));
        REQUIRE(taken[2].each_once(50));
      }
    }
  }
}

TEST_CASE("after an error the same batch is asked for again") {
  Taken taken;
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    const auto source = std::make_shared<MadeSamples>(60, 8);
    std::atomic<bool> away{true};
    source->cannot_decode = [&](std::int64_t sample) { return sample == 30 && away; };
    SampleCache cache(comm, {.pack_samples = 5}, source);
    SampleLoader loader(cache, {.batch = 2, .seed = 1});
    int errors = 0;
    for (bool more = true; more;) {
      try {
        const std::optional<SampleBatch> batch = loader.next();
        more = batch.has_value();
        if (more) taken.add(*batch, comm.rank());
      } catch (const Error& error) {
        check.that(std::string(error.what()).find("sample 30") != std::string::npos, error.what());
        if (++errors == 2) away = false;
      }
    }
    check.that(errors == 2, "errors: " + std::to_string(errors));
  });
  REQUIRE(check.failure() == "");
  REQUIRE(taken.each_once(60));
}

TEST_CASE("a loader may outlive its cache, and end in the middle") {
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              const auto source = std::make_shared<MadeSamples>(100, 8);
              std::optional<SampleCache> cache(std::in_place, comm, SampleCacheConfig{.pack_samples = 5}, source);
              std::optional<SampleLoader> loader(std::in_place, *cache, SampleLoaderConfig{.batch = 3});
              SampleLoader second(*cache, {.batch = 5, .seed = 2});
              (void)loader->next();
              (void)second.next();
              cache.reset();
              for (int i = 0; i < 4; ++i) {
                const std::string wrong = check_values(*source, *loader->next());
                check.that(wrong.empty(), wrong);
              }
              loader.reset();
              check.that(check_values(*source, *second.next()).empty(), "the other loader");
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a loader that ends with batches in flight leaves the cache as it was") {
  for (const bool fails : {false, true}) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const auto source = std::make_shared<MadeSamples>(60, 8);
      std::atomic<bool> away{fails};
      source->cannot_decode = [&](std::int64_t sample) { return sample == 30 && away; };
      SampleCache cache(comm, {.largest_batch = 10, .pack_samples = 5}, source);
      {
        SampleLoader loader(cache, {.batch = 10, .shuffle = Shuffle::none});
        try {
          (void)loader.next();
        } catch (const Error&) {
        }
        away = false;
      }
      for (std::int64_t sample = 0; sample < 4; ++sample) {
        std::vector<std::byte> value(8);
        std::int64_t size = 0;
        cache.get(std::span(&sample, 1), value, std::span(&size, 1));
        const std::string wrong = wrong_value(*source, sample, value, size);
        check.that(wrong.empty(), wrong);
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a loader hears of its errors whatever else the cache is asked for") {
  for (const bool second_loader : {false, true}) {
    RankCheck check;
    std::atomic<int> errors{0};
    run_ranks(3, [&](Communicator& comm) {
      const auto source = std::make_shared<MadeSamples>(60, 8);
      std::atomic<int> failures{0};
      source->cannot_decode = [&](std::int64_t sample) { return sample == 30 && failures++ < 2; };
      SampleCache cache(comm, {.pack_samples = 5}, source);
      SampleLoader loader(cache, {.batch = 2, .seed = 1}), other(cache, {.batch = 3, .seed = 5});
      const auto take = [&](SampleLoader& from) {
        try {
          const std::optional<SampleBatch> batch = from.next();
          const std::string wrong = batch ? check_values(*source, *batch) : "";
          check.that(wrong.empty(), wrong);
          return batch.has_value();
        } catch (const Error&) {
          ++errors;
          return true;
        }
      };
      while (take(loader)) {
        if (second_loader) {
          (void)take(other);
          continue;
        }
        const std::int64_t sample = 3;
        std::vector<std::byte> value(8);
        cache.get(std::span(&sample, 1), value);
        check.that(wrong_value(*source, sample, value, 8).empty(), "what is asked for in between");
      }
    });
    REQUIRE(check.failure() == "");
    REQUIRE(errors > 0);
  }
}

TEST_CASE("wrong loaders and positions are the same error on all ranks") {
  const auto expect = [](weir_status status, const char* part, const std::function<void(SampleCache&, int)>& body) {
    INFO(part);
    REQUIRE(unlike_errors(3, status, part, [&](Communicator& comm) {
              SampleCache cache(comm, {.largest_batch = 4}, std::make_shared<MadeSamples>(60, 8));
              body(cache, comm.rank());
            }) == "");
  };
  expect(WEIR_ERR_ARGUMENT, "rank 0: batch is 5: the cache's largest_batch is 4",
         [](SampleCache& cache, int) { SampleLoader(cache, {.batch = 5}); });
  expect(WEIR_ERR_ARGUMENT, "exchanged_share is 2",
         [](SampleCache& cache, int) { SampleLoader(cache, {.batch = 1, .exchanged_share = 2}); });
  expect(WEIR_ERR_MISMATCH, "loader of samples 'samples': ranks disagree about shuffle: rank 0 has global, rank 1 has none",
         [](SampleCache& cache, int rank) {
           SampleLoader(cache, {.batch = 1, .shuffle = rank == 1 ? Shuffle::none : Shuffle::global});
         });
  const auto seek = [](auto text_of) {
    return [=](SampleCache& cache, int rank) {
      SampleLoader loader(cache, {.batch = 1});
      const std::string position = loader.position();
      loader.seek(text_of(position, rank));
    };
  };
  expect(WEIR_ERR_ARGUMENT, "is no position of a loader", seek([](const std::string&, int) { return std::string("here"); }));
  expect(WEIR_ERR_ARGUMENT, "the position is one with seed 7: that of this loader is 0",
         seek([](std::string text, int) { return text.replace(text.find("seed=0"), 6, "seed=7"); }));
  expect(WEIR_ERR_MISMATCH, "rank 2 has another position to go to than rank 0",
         seek([](std::string text, int rank) { return rank == 2 ? text.replace(text.find("step=0"), 6, "step=1") : text; }));
}

}  // namespace
}  // namespace weir::test
