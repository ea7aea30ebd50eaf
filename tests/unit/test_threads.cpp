// test_threads.cpp: loops and local selection on several threads have the bits of one thread.
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/threads.hpp"
#include "contribution/contribution.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inputs.hpp"
#include "support/same_bits.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

template <class T>
class SharedSelector {
 public:
  SharedSelector(const SelectionSetup& setup, int threads)
      : residual(setup.count),
        memory_({}, nullptr, setup.count, 0, Threads(threads)),
        selector_({.selection = setup, .feedback = {}, .keeps_residual = false, .wire = {}}, memory_) {
    memory_.fill_zero(residual.data(), setup.count);
  }
  bool select(const T* gradient, std::int64_t k) {
    const FramePool::Scope scope(frames_);
    return run_here(selector_.select_from(gradient, residual.data(), k, true));
  }
  [[nodiscard]] SparseVector<T> selection() const { return selector_.selection(); }
  void settle(SparseVector<T> taken) { selector_.settle_in(residual.data(), taken); }
  void roll_back(const T* gradient) { selector_.roll_back_in(residual.data(), gradient); }
  HostArrays<T>& memory() { return memory_; }

  Buffer<T> residual;

 private:
  FramePool frames_;
  HostArrays<T> memory_;
  Contribution<HostArrays<T>> selector_;
};

template <class T>
bool same(SparseVector<T> a, SparseVector<T> b) {
  const auto size = static_cast<std::size_t>(a.count);
  return a.count == b.count && std::equal(a.indices, a.indices + a.count, b.indices) &&
         same_bits(std::span(a.values, size), std::span(b.values, size));
}

template <class T>
std::span<const T> all_of(const Buffer<T>& x) {
  return {x.data(), static_cast<std::size_t>(x.size())};
}

constexpr int thread_counts[] = {2, 3, 7};

/// Checks the selection for the `gradients` of the iterations. After the last one, everything is rolled back.
template <class T>
void check_same_selection(const std::string& method, const std::vector<std::vector<T>>& gradients, std::int64_t k) {
  const auto n = static_cast<std::int64_t>(gradients[0].size());
  const SelectionSetup setup{n, k, method_of(method, 2)};
  SharedSelector<T> one(setup, 1);
  std::vector<std::unique_ptr<SharedSelector<T>>> several;
  for (const int threads : thread_counts) several.push_back(std::make_unique<SharedSelector<T>>(setup, threads));
  for (std::size_t t = 0; t < gradients.size(); ++t) {
    INFO("iteration " << t);
    const bool last = t + 1 == gradients.size();
    REQUIRE(one.select(gradients[t].data(), k));
    const SparseVector<T> taken{one.selection().indices, nullptr, one.selection().count / 2};
    std::vector<std::uint32_t> indices(taken.indices, taken.indices + taken.count);
    for (auto& other : several) {
      REQUIRE(other->select(gradients[t].data(), k));
      REQUIRE(same(other->selection(), one.selection()));
      REQUIRE(same_bits(all_of(other->residual), all_of(one.residual)));
    }
    const SparseVector<T> delivered{indices.data(), nullptr, taken.count};
    last ? one.roll_back(gradients[t].data()) : one.settle(delivered);
    for (auto& other : several) {
      last ? other->roll_back(gradients[t].data()) : other->settle(delivered);
      REQUIRE(same_bits(all_of(other->residual), all_of(one.residual)));
    }
  }
}

cpu_set_t mask_of(pid_t thread) {
  cpu_set_t mask;
  REQUIRE(sched_getaffinity(thread, sizeof mask, &mask) == 0);
  return mask;
}
bool same(const cpu_set_t& a, const cpu_set_t& b) { return CPU_EQUAL(&a, &b) != 0; }

/// Returns the first two processors that the test may use, as cores, or fewer if there are fewer.
std::vector<std::vector<int>> two_cores() {
  std::vector<std::vector<int>> cores;
  const cpu_set_t mine = mask_of(0);
  for (int cpu = 0; cpu < CPU_SETSIZE && cores.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &mine)) cores.push_back({cpu});
  }
  return cores;
}

/// Returns a thread that has taken part besides the caller. Returns 0 if no thread has come within seconds, as without oneTBB.
pid_t helper_of(const Threads& threads) {
  std::atomic<pid_t> helper = 0;
  for (int attempt = 0; attempt < 20 && helper == 0; ++attempt) {
    threads.run(2, [&](int) {
      if (gettid() != getpid()) helper = gettid();
      const auto begin = std::chrono::steady_clock::now();
      while (helper == 0 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(100)) std::this_thread::yield();
    });
  }
  return helper;
}

}  // namespace

TEST_CASE("parts cover everything once, begin at multiples and are equal up to those", "[threads]") {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 1000}) {
    for (const std::int64_t multiple : {1, 16}) {
      for (const int parts : {1, 2, 3, 7}) {
        std::int64_t at = 0;
        for (int part = 0; part < parts; ++part) {
          const PartRange range = part_range(count, multiple, part, parts);
          REQUIRE(range.begin == at);
          REQUIRE((range.begin % multiple == 0 || range.begin == count));
          REQUIRE(range.count() <= (count / multiple / parts + 2) * multiple);
          at = range.end;
        }
        REQUIRE(at == count);
      }
    }
  }
}

TEST_CASE("every part is worked on once, by as many threads as there may be", "[threads]") {
  REQUIRE(Threads().count() == 1);
  for (const int count : {1, 2, 3, 7}) {
    const Threads threads(count);
    REQUIRE(threads.parts(1000, 10000) == 1);
    REQUIRE(threads.parts(0, 1) == 1);
    REQUIRE(threads.parts(1000000, 1) == threads.count());
    for (int repeat = 0; repeat < 100; ++repeat) {
      std::vector<std::atomic<int>> visits(20);
      threads.run(20, [&](int part) { ++visits[static_cast<std::size_t>(part)]; });
      for (const auto& visit : visits) REQUIRE(visit == 1);
    }
    REQUIRE_THROWS_WITH(threads.run(20,
                                    [](int part) {
                                      if (part == 13) throw std::runtime_error("part 13");
                                    }),
                        "part 13");
  }
}

TEST_CASE("several of the program's threads may share them", "[threads]") {
  const Threads threads(3);
  std::atomic<int> sum = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) threads.run(5, [&](int part) { sum += part; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  REQUIRE(sum == 4 * 200 * 10);
}

TEST_CASE("threads stay on cores as long as somebody wants it, and go where they could before afterwards", "[threads]") {
  const auto cores = two_cores();
  const cpu_set_t mine = mask_of(0);
  auto first = std::make_unique<Threads>(2, cores), second = std::make_unique<Threads>(2, cores);
  std::vector<pid_t> helpers;
  for (const Threads* const threads : {first.get(), second.get(), first.get()}) {
    helpers.push_back(cores.size() == 2 ? helper_of(*threads) : 0);
    if (helpers.back() == 0) {
      WARN("no thread besides the caller: nothing tested");
      return;
    }
    const cpu_set_t mask = mask_of(helpers.back());
    REQUIRE(CPU_COUNT(&mask) == 1);
  }
  first.reset();
  for (const pid_t helper : helpers) {
    const cpu_set_t mask = mask_of(helper);
    REQUIRE(CPU_COUNT(&mask) == 1);
  }
  second.reset();
  for (const pid_t helper : helpers) REQUIRE(same(mask_of(helper), mine));
  REQUIRE(same(mask_of(0), mine));
}

TEST_CASE("threads that the program has put elsewhere stay there", "[threads]") {
  const auto cores = two_cores();
  auto threads = std::make_unique<Threads>(2, cores);
  const pid_t helper = cores.size() == 2 ? helper_of(*threads) : 0;
  if (helper == 0) {
    WARN("no thread besides the caller: nothing tested");
    return;
  }
  const cpu_set_t before = mask_of(helper), mine = mask_of(0);
  cpu_set_t other;
  CPU_ZERO(&other);
  CPU_SET(cores[CPU_ISSET(cores[0][0], &before) ? 1 : 0][0], &other);
  REQUIRE(sched_setaffinity(helper, sizeof other, &other) == 0);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // time to leave the pool's work and come back
    helper_of(*threads);
  }
  REQUIRE(same(mask_of(helper), other));
  threads.reset();
  REQUIRE(same(mask_of(helper), other));
  REQUIRE(sched_setaffinity(helper, sizeof mine, &mine) == 0);
}

TEST_CASE("a program that moves to other cores keeps its results, and workers leave those cores", "[threads]") {
  const auto cores = two_cores();
  const Threads threads(2, cores);
  const pid_t helper = cores.size() == 2 ? helper_of(threads) : 0;
  if (helper == 0) {
    WARN("no thread besides the caller: nothing tested");
    return;
  }
  const std::int64_t n = 3 * 131072 + 5, k = n / 100;
  const auto gradient = make_input<float>(Input::heavy_tailed, n, 0, 1, 0);
  SharedSelector<float> one({.count = n, .largest_k = k}, 1), two({.count = n, .largest_k = k}, 2);
  struct Return {
    cpu_set_t mine = mask_of(0);
    ~Return() { sched_setaffinity(0, sizeof mine, &mine); }
  } const at_end;
  for (int t = 0; t < 8; ++t) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(cores[static_cast<std::size_t>(t % 2)][0], &here);
    REQUIRE(sched_setaffinity(0, sizeof here, &here) == 0);
    threads.run(2, [](int) {});
    const cpu_set_t there = mask_of(helper);
    REQUIRE((CPU_COUNT(&there) == 1 && !same(there, here)));
    REQUIRE((one.select(gradient.data(), k) && two.select(gradient.data(), k)));
    REQUIRE(same(two.selection(), one.selection()));
    REQUIRE(same_bits(all_of(two.residual), all_of(one.residual)));
  }
}

TEST_CASE("the child of a fork works alone", "[threads]") {
  const Threads threads(3);
  int parts = 0;
  threads.run(1, [&](int) { ++parts; });
  std::atomic<int> before = 0;
  threads.run(3, [&](int) { ++before; });
  REQUIRE((parts == 1 && before == 3));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    const pthread_t me = pthread_self();
    int alone = 0;
    threads.run(7, [&](int) { alone += pthread_equal(me, pthread_self()) != 0; });
    Threads(4).run(7, [&](int) { alone += pthread_equal(me, pthread_self()) != 0; });
    _exit(alone == 14 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  threads.run(3, [&](int) { ++before; });
  REQUIRE(before == 6);
}

TEMPLATE_TEST_CASE("selection has the same bits on any number of threads", "[threads][selector]", float, double) {
  using T = TestType;
  for (const Input input : all_inputs()) {
    for (const std::int64_t n : {393216 + 5, 7 * 131072 + 13}) {
      std::vector<std::vector<T>> gradients;
      for (const std::string& method : all_thresholds) {
        for (const std::int64_t k : {n / 100, n / 3}) {
          if (left_out()) continue;
          while (gradients.size() < 3) gradients.push_back(make_input<T>(input, n, 0, 1, static_cast<int>(gradients.size())));
          INFO(input_name(input) << " n " << n << " k " << k << " " << method);
          check_same_selection<T>(method, gradients, k);
        }
      }
    }
  }
  for (const std::int64_t n : {0, 1, 2, 1001}) {
    INFO("n " << n);
    check_same_selection<T>("exact", {make_input<T>(Input::heavy_tailed, n, 0, 1, 0)}, n / 2);
  }
}

TEMPLATE_TEST_CASE("what there is no room for stays in the residual on any number of threads", "[threads][selector]", float,
                   double) {
  using T = TestType;
  const std::int64_t n = 7 * 131072 + 13;
  std::vector<T> gradient = make_input<T>(Input::heavy_tailed, n, 0, 1, 0);
  for (const std::int64_t place : {5, 300000, 900000})
    gradient[static_cast<std::size_t>(place)] = std::numeric_limits<T>::infinity();
  const std::vector<T> before = make_input<T>(Input::integers, n, 0, 1, 1);
  for (const Summary summary : {Summary::none, Summary::moments, Summary::magnitudes}) {
    for (const std::int64_t capacity : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1000}, n / 3, n / 2, n}) {
      const Key<T> floor = key_of(T(1.5)), keep_old = key_of(T(4));
      std::vector<T> expected = before;
      HostArrays<T> one({}, nullptr, n, 0);
      typename HostArrays<T>::Entries found(capacity);
      one.reserve(capacity);
      one.compensate(gradient.data(), expected.data(), n, floor, keep_old, summary, found, capacity);
      for (const int threads : thread_counts) {
        INFO("capacity " << capacity << " threads " << threads << " summary " << static_cast<int>(summary));
        HostArrays<T> memory({}, nullptr, n, 0, Threads(threads));
        typename HostArrays<T>::Entries entries(capacity);
        memory.reserve(capacity);
        std::vector<T> residual = before;
        memory.compensate(gradient.data(), residual.data(), n, floor, keep_old, summary, entries, capacity);
        REQUIRE(memory.results().found.hits == one.results().found.hits);
        REQUIRE(memory.results().moments.sum == one.results().moments.sum);
        REQUIRE(memory.results().moments.count == one.results().moments.count);
        REQUIRE(memory.results().exceedances.sum_magnitudes == one.results().exceedances.sum_magnitudes);
        const std::int64_t stored = std::min(capacity, one.results().found.hits);
        REQUIRE(same(entries.first(stored), found.first(stored)));
        REQUIRE(same_bits(std::span<const T>(residual), std::span<const T>(expected)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("passes over arrays and entries have the same bits on any number of threads", "[threads]", float, double) {
  using T = TestType;
  const std::int64_t n = 1800011;
  const std::vector<T> x = make_input<T>(Input::heavy_tailed, n, 0, 1, 0), y = make_input<T>(Input::integers, n, 0, 1, 1);
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
  for (std::uint32_t i = 3; i < n; i += 1 + i % 13) {
    indices.push_back(i);
    values.push_back(x[i]);
  }
  const SparseVector<T> entries{indices.data(), values.data(), std::ssize(indices)};
  const auto pass = [&](int threads) {
    HostArrays<T> memory({}, nullptr, n, 0, Threads(threads));
    std::vector<std::vector<T>> results(6, y);
    memory.add(x.data(), results[0].data(), n);
    memory.waxpby(T(0.3), x.data(), T(0.7), y.data(), results[1].data(), n);
    memory.waxpby(T(0.3), x.data(), T(0), nullptr, results[2].data(), n);
    memory.narrow(x.data(), results[3].data(), n);
    memory.fill_zero(results[4].data(), n);
    memory.densify(results[5].data(), n, entries);
    memory.settle(results[0].data(), entries, {indices.data(), nullptr, entries.count / 2});
    memory.count_non_finite(x.data(), n);
    REQUIRE(memory.results().exceedances.count == 0);
    return results;
  };
  const auto expected = pass(1);
  for (const int threads : thread_counts) {
    const auto results = pass(threads);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("threads " << threads << " result " << i);
      REQUIRE(same_bits(std::span<const T>(results[i]), std::span<const T>(expected[i])));
    }
  }
}

TEST_CASE("threads allocate nothing once they have run", "[threads]") {
  const std::int64_t n = 7 * 131072 + 13, k = n / 100;
  const auto gradient = make_input<float>(Input::heavy_tailed, n, 0, 1, 0);
  SharedSelector<float> selector({.count = n, .largest_k = k}, 2);
  const auto step = [&] {
    REQUIRE(selector.select(gradient.data(), k));
    selector.settle(selector.selection());
  };
  for (int t = 0; t < 3; ++t) step();
  const std::int64_t before = allocations_of_all_threads();
  for (int t = 0; t < 10; ++t) step();
  REQUIRE(allocations_of_all_threads() == before);
}

}  // namespace weir::test
