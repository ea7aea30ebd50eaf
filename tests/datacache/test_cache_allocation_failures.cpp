// Memory runs out on one rank, at every allocation in making caches and loaders, in taking batches and in changing the position.
// Every rank ends with the same result, and the communicator still works.
#include <optional>
#include <weir/datacache.hpp>

#include "datacache/made_samples.hpp"
#include "support/failing_calls.hpp"

namespace weir::test {
namespace {

using Verdict = FailingCalls::Verdict;

constexpr std::array machines = {FailingRank{1, "", 0}, FailingRank{2, "", 1}, FailingRank{3, "node:3 rank:1", 0}};
const SampleCacheConfig config = {.largest_batch = 4, .in_flight = 3, .pack_samples = 4};

/// A cache, and a loader if a test needs it.
struct Made {
  void make_cache(const Communicator& comm) { cache.emplace(comm, config, source); }
  void make_loader() { loader.emplace(*cache, SampleLoaderConfig{.batch = 4}); }
  void take(int batches) {
    for (int i = 0; i < batches; ++i) (void)loader->next();
  }
  std::shared_ptr<SampleSource> source = std::make_shared<MadeSamples>(30, 8);
  std::optional<SampleCache> cache;
  std::optional<SampleLoader> loader;
};

/// Runs, on all machines, `before`, then `failing`, and then everything with another cache.
void check(const std::string& what, const std::function<void(Made&, Communicator&)>& before,
           const std::function<void(Made&, Communicator&)>& failing) {
  for (const FailingRank& machine : machines) {
    fail_every_allocation(what, machine.ranks, machine.victim, machine.description, [&](FailingCalls& calls, Communicator& comm) {
      Made made, other;
      before(made, comm);
      if (calls.fail(comm.rank(), what, {}, {}, [&] { failing(made, comm); }) == Verdict::wrong) return;
      calls.call(comm.rank(), "another one afterwards", {}, {}, {Verdict::right}, [&] {
        other.make_cache(comm);
        other.make_loader();
        other.take(5);
      });
    });
  }
}

TEST_CASE("memory runs out while a cache is made", "[failures]") {
  check(
      "making a cache", [](Made&, Communicator&) {}, [](Made& made, Communicator& comm) { made.make_cache(comm); });
}

TEST_CASE("memory runs out while a loader is made", "[failures]") {
  check(
      "making a loader", [](Made& made, Communicator& comm) { made.make_cache(comm); },
      [](Made& made, Communicator&) { made.make_loader(); });
}

TEST_CASE("memory runs out in epochs", "[failures]") {
  for (const int taken : {0, 3, 8}) {
    check(
        "batches",
        [&](Made& made, Communicator& comm) {
          made.make_cache(comm);
          made.make_loader();
          made.take(taken);
        },
        [](Made& made, Communicator&) { made.take(10); });
  }
}

TEST_CASE("memory runs out on the way to another position", "[failures]") {
  check(
      "seek",
      [](Made& made, Communicator& comm) {
        made.make_cache(comm);
        made.make_loader();
        made.take(1);
      },
      [](Made& made, Communicator&) {
        made.loader->seek(
            "samples=30 shuffle=global share=0.1 seed=0 epoch=3 step=0 ranks=1*3,2 counts=10*2,7,3 taken=0,5,0,0 rest=-1");
      });
}

}  // namespace
}  // namespace weir::test
