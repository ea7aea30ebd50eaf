// test_nccl_plan.cpp: plans in CUDA memory with NCCL equal plans in host memory. Virtual ranks have a GPU each, on the emulated
// machine, or real ones if there are enough.
#include <array>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include "cuda/nccl.hpp"
#include "cuda/runtime.hpp"
#include "kernels/narrow.hpp"
#include "support/catch.hpp"
#include "support/device_arrays.hpp"
#include "support/device_runs.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

/// Returns whether there is NCCL and a GPU for each rank. If not, prints the reason.
bool can_have(int ranks) {
  const std::string reason = !cuda::why_no_nccl().empty() ? cuda::why_no_nccl()
                             : cuda::device_count() < ranks
                                 ? std::to_string(cuda::device_count()) + " GPUs for " + std::to_string(ranks) + " ranks"
                                 : "";
  if (reason.empty()) return true;
  static std::string said;
  if (said != reason) std::printf("not tested: %s\n", (said = reason).c_str());
  return false;
}

std::string name_of_host(const std::string& algorithm) { return algorithm == "dense_nccl" ? "dense_ring" : algorithm; }

struct Case {
  int ranks;
  std::string machine;
  AllreduceConfig config;
  std::vector<std::size_t> places{};
};

std::string text_of(const Case& c) {
  return c.config.algorithm + " of " + std::to_string(c.config.count) + " on '" + c.machine + "', " + std::to_string(c.ranks) +
         " ranks, type " + std::to_string(static_cast<int>(c.config.type));
}

/// Runs `body(comm, on_host, on_gpu, check)` on every rank, each with its own GPU.
template <class Body>
void run_case(const Case& c, Body body) {
  if (!can_have(c.ranks)) return;
  RankCheck check;
  run_ranks(c.ranks,
            [&](Communicator& comm) {
              const cuda::OnDevice on(comm.rank());
              AllreduceConfig config = c.config, of_host = c.config;
              config.memory = MemorySpace::cuda;
              of_host.algorithm = name_of_host(config.algorithm);
              if (config.type != DataType::float64) of_host.type = DataType::float32;
              AllreducePlan on_host(comm, of_host), on_gpu(comm, config);
              body(comm, on_host, on_gpu, check);
            },
            {.seed = 3, .machine = c.machine, .places = c.places});
  INFO(text_of(c));
  REQUIRE(check.failure() == "");
}

template <class T>
void compare_dense(const Case& c, Input input = Input::integers) {
  if (left_out()) return;
  run_case(c, [&](Communicator& comm, AllreducePlan& on_host, AllreducePlan& on_gpu, RankCheck& check) {
    const cuda::Stream stream;
    for (int t = 0; t < 3; ++t) {
      std::vector<T> expected = make_input<T>(input, c.config.count, comm.rank(), c.ranks, t);
      Upload<T> there(expected, stream.get());
      on_host.run(expected);
      on_gpu.run(there.data(), stream.get());
      check.that(there.fetch() == expected, "iteration " + std::to_string(t) + ": other sums");
      const Statistics &a = on_host.statistics(), &b = on_gpu.statistics();
      check.that(a.k == b.k && a.selected_local == b.selected_local && a.selected_global == b.selected_global &&
                     a.iteration == b.iteration && b.payload_bytes_sent == 0,
                 "other statistics");
    }
  });
}

/// Compares sharded algorithms. Gradients are small integers, sometimes poisoned, so that sums in nodes are exact in any order.
template <class T>
void compare_sharded(const Case& c) {
  if (left_out()) return;
  run_case(c, [&](Communicator& comm, AllreducePlan& on_host, AllreducePlan& on_gpu, RankCheck& check) {
    const bool in_nodes = on_gpu.explanation().find("dense sums in nodes by NCCL") != std::string::npos;
    check.that(in_nodes == (c.ranks > 1 && c.machine != "node:4 rank:1"), on_gpu.explanation());
    for (int t = 0; t < 5; ++t) {
      std::vector<T> gradient = make_input<T>(Input::integers, c.config.count, comm.rank(), c.ranks, t);
      if (t % 3 == 1 && comm.rank() == c.ranks - 1 && !gradient.empty())
        gradient[gradient.size() / 2] = std::numeric_limits<T>::infinity();
      run_both(on_host, on_gpu, gradient, t % 2 == 0, check,
               "rank " + std::to_string(comm.rank()) + ", iteration " + std::to_string(t) + ": ", false);
    }
  });
}

/// Compares with 16-bit gradients. `tolerance` is relative.
template <class G>
void compare_narrow(const Case& c, float tolerance) {
  if (left_out()) return;
  run_case(c, [&](Communicator& comm, AllreducePlan& on_host, AllreducePlan& on_gpu, RankCheck& check) {
    const cuda::Stream stream;
    std::vector<float> expected = make_input<float>(Input::integers, c.config.count, comm.rank(), c.ranks, 0);
    std::vector<G> narrow;
    for (const float value : expected) narrow.push_back(narrow_to<G>(value));
    Upload<G> there(narrow, stream.get());
    on_host.run(expected);
    on_gpu.run(there.data(), stream.get());
    const std::vector<G> sums = there.fetch();
    for (std::size_t i = 0; i < sums.size(); ++i)
      check.at_most(std::abs(widen(sums[i]) - expected[i]), tolerance * 8, "element " + std::to_string(i));
  });
}

/// Runs plans of different sizes, all in flight at once, started and preferred in another order on every rank.
void run_together(Communicator& comm, RankCheck& check) {
  constexpr std::array algorithms = {"dense_nccl", "dense_torus2d", "hi_oktopk"};
  const cuda::OnDevice on(comm.rank());
  std::vector<AllreducePlan> plans;
  std::vector<std::vector<float>> ones;
  for (int p = 0; p < 6; ++p) {
    const std::int64_t count = 100 + p;
    ones.emplace_back(static_cast<std::size_t>(count), 1.0f);
    plans.emplace_back(comm, AllreduceConfig{.count = count,
                                             .memory = MemorySpace::cuda,
                                             .k = count,
                                             .algorithm = algorithms[static_cast<std::size_t>(p % 3)],
                                             .average = false,
                                             .priority = (p + comm.rank()) % 3});
  }
  const std::vector<cuda::Stream> streams(plans.size());
  for (int t = 0; t < 8; ++t) {
    std::vector<std::unique_ptr<Upload<float>>> there;
    std::vector<std::optional<Operation>> operations(plans.size());
    for (std::size_t p = 0; p < plans.size(); ++p) there.push_back(std::make_unique<Upload<float>>(ones[p], streams[p].get()));
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const std::size_t p = (i + 2 * static_cast<std::size_t>(comm.rank())) % plans.size();
      operations[p] = plans[p].start(there[p]->data(), streams[p].get());
    }
    for (auto& operation : operations) operation->wait();
    for (std::size_t p = 0; p < plans.size(); ++p)
      check.that(there[p]->fetch() == std::vector<float>(ones[p].size(), 4.0f), "plan " + std::to_string(p));
  }
}

struct Place {
  int ranks;
  std::string machine;
  std::vector<std::size_t> places{};
};
const std::vector<Place>& places() {
  static const std::vector<Place> list = {{1, ""},
                                          {3, ""},
                                          {4, "node:2 rank:2"},
                                          {5, "nodes:3,2"},
                                          {5, "nodes:1,4"},
                                          {4, "node:4 rank:1"},
                                          {3, "nodes:2,1"},
                                          {4, "node:2 rank:2", {0, 2, 1, 3}},
                                          {5, "nodes:2,3", {2, 0, 3, 1, 4}}};
  return list;
}

}  // namespace

TEMPLATE_TEST_CASE("dense algorithms in CUDA memory sum as in host memory", "[nccl]", float, double) {
  for (const std::string algorithm : {"dense_nccl", "dense_torus2d"}) {
    for (const Place& place : places()) {
      for (const std::int64_t n : {0, 1, 3, 8, 7001}) {
        for (const bool average : {true, false})
          compare_dense<TestType>({place.ranks,
                                   place.machine,
                                   {.count = n, .type = data_type_of<TestType>, .algorithm = algorithm, .average = average},
                                   place.places});
      }
    }
  }
}

TEMPLATE_TEST_CASE("algorithms that shard, in CUDA memory as in host memory", "[nccl]", float, double) {
  for (const std::string algorithm : {"hitopk", "hi_oktopk"}) {
    for (const Place& place : places()) {
      for (const std::int64_t n : {0, 1, 3, 7001})
        compare_sharded<TestType>(
            {place.ranks, place.machine, {.count = n, .type = data_type_of<TestType>, .algorithm = algorithm}, place.places});
    }
  }
}

TEST_CASE("the first iterations may run dense in CUDA memory, too", "[nccl]") {
  for (const std::string algorithm : {"oktopk", "topk_allgather", "gtopk"}) {
    run_case({3, "node:1 rank:3", {.count = 701, .algorithm = algorithm, .non_finite = NonFinite::skip, .dense_iterations = 2}},
             [&](Communicator& comm, AllreducePlan& on_host, AllreducePlan& on_gpu, RankCheck& check) {
               for (int t = 0; t < 6; ++t) {
                 std::vector<float> gradient = make_input<float>(Input::integers, 701, comm.rank(), 3, t);
                 if (t == 1 && comm.rank() == 2) gradient[5] = std::numeric_limits<float>::infinity();
                 run_both(on_host, on_gpu, gradient, true, check, "iteration " + std::to_string(t) + ": ", false);
               }
               on_host.reset();
               on_gpu.reset();
               check.that(on_gpu.statistics().iteration == 0, "reset");
             });
  }
}

TEST_CASE("options of plans that shard, in CUDA memory as in host memory", "[nccl]") {
  for (const std::string algorithm : {"hitopk", "hi_oktopk"}) {
    for (const Place& place : {Place{4, "node:2 rank:2"}, Place{5, "nodes:3,2"}}) {
      const auto compare = [&](AllreduceConfig config) {
        config.count = 3001;
        config.algorithm = algorithm;
        compare_sharded<float>({place.ranks, place.machine, config});
      };
      for (const std::string threshold : {"reuse", "mstopk", "sampled", "gaussian", "sidco"})
        compare({.threshold = threshold, .threshold_parameters = period_of(threshold, 3)});
      compare({.k = 0});
      compare({.k = 3001});
      compare({.error_feedback = Feedback::none});
      compare({.average = false});
      compare({.warmup_iterations = 3});
      compare({.dense_iterations = 2});
      compare({.wire_values = WireValues::bfloat16});
      for (const NonFinite policy : {NonFinite::error, NonFinite::skip, NonFinite::propagate}) compare({.non_finite = policy});
    }
  }
}

TEST_CASE("compressed sums in nodes by NCCL, in CUDA memory as in host memory", "[nccl]") {
  for (const Place& place : {Place{4, "node:2 rank:2"}, Place{5, "nodes:3,2"}}) {
    for (AllreduceConfig config : {AllreduceConfig{}, AllreduceConfig{.compressor = "qsgd", .error_feedback = Feedback::none},
                                   AllreduceConfig{.dense_iterations = 2}, AllreduceConfig{.compressor = "signum"},
                                   AllreduceConfig{.compressor = "chunked_topk", .feedback_decay = 0.9},
                                   AllreduceConfig{.error_feedback = Feedback::ef21, .non_finite = NonFinite::skip}}) {
      config.count = 3001;
      config.algorithm = "packed_reduce_scatter";
      run_case({place.ranks, place.machine, config},
               [&](Communicator& comm, AllreducePlan& on_host, AllreducePlan& on_gpu, RankCheck& check) {
                 check.that(on_gpu.explanation().find("dense sums in nodes by NCCL") != std::string::npos, on_gpu.explanation());
                 for (int t = 0; t < 4; ++t) {
                   auto gradient = make_input<float>(Input::integers, config.count, comm.rank(), place.ranks, t);
                   if (t == 2 && comm.rank() == 1) gradient[1500] = std::numeric_limits<float>::infinity();
                   run_both(on_host, on_gpu, gradient, true, check,
                            "rank " + std::to_string(comm.rank()) + ", iteration " + std::to_string(t) + ": ", false);
                 }
               });
    }
  }
}

TEST_CASE("sums of 16-bit types", "[nccl]") {
  for (const std::string algorithm : {"dense_nccl", "dense_torus2d", "hi_oktopk"}) {
    for (const Place& place : places()) {
      for (const bool average : {true, false}) {
        const float tolerance = !average || place.ranks == 4 || place.ranks == 1 ? 0.0f : 0.01f;
        compare_narrow<float16>({place.ranks,
                                 place.machine,
                                 {.count = 1003, .type = DataType::float16, .algorithm = algorithm, .average = average},
                                 place.places},
                                tolerance);
        compare_narrow<bfloat16>({place.ranks,
                                  place.machine,
                                  {.count = 1003, .type = DataType::bfloat16, .algorithm = algorithm, .average = average},
                                  place.places},
                                 tolerance * 8);
      }
    }
  }
}

TEST_CASE("NaN and infinity in dense plans in CUDA memory: error, skip, propagate", "[nccl]") {
  for (const std::string algorithm : {"dense_nccl", "dense_torus2d"}) {
    for (const NonFinite policy : {NonFinite::error, NonFinite::skip, NonFinite::propagate}) {
      const Case c{4, "node:2 rank:2", {.count = 2001, .algorithm = algorithm, .non_finite = policy}};
      run_case(c, [&](Communicator& comm, AllreducePlan& on_host, AllreducePlan& on_gpu, RankCheck& check) {
        const cuda::Stream stream;
        for (int t = 0; t < 4; ++t) {
          std::vector<float> expected = make_input<float>(Input::integers, c.config.count, comm.rank(), c.ranks, t);
          if (t % 2 == 1 && comm.rank() == 2) expected[1999] = std::numeric_limits<float>::infinity();
          Upload<float> there(expected, stream.get());
          std::string text, gpu_text;
          try {
            on_host.run(expected);
          } catch (const Error& error) {
            text = error.what();
          }
          try {
            on_gpu.run(there.data(), stream.get());
          } catch (const Error& error) {
            gpu_text = error.what();
          }
          check.that(text == gpu_text, "other errors: " + text + " / " + gpu_text);
          check.that(there.fetch() == expected, "other sums");
          check.that(on_host.statistics().skipped == on_gpu.statistics().skipped, "skipped by one only");
        }
      });
    }
  }
}

TEST_CASE("plans share NCCL's communicators, started in different orders", "[nccl]") {
  if (!can_have(4)) return;
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6}) {
    if (left_out(4)) continue;
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) { run_together(comm, check); }, {.seed = seed, .machine = "node:2 rank:2"});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a NCCL communicator of one rank", "[nccl]") {
  if (!can_have(1)) return;
  const cuda::Stream stream;
  cuda::NcclCommunicator alone(cuda::make_nccl_id(), 0, 1);
  const auto wait = [&] {
    while (!alone.reached()) {
    }
    cuda::synchronize(stream.get());
  };
  wait();
  const std::vector<float> ones(1000, 1);
  Upload<float> there(ones, stream.get());
  alone.allreduce(there.data(), 1000, DataType::float32, 0.5, stream.get());
  wait();
  const std::vector<std::int64_t> bounds = {0, 1000};
  alone.reduce_scatter(there.data(), there.data(), bounds, DataType::float32, 1, stream.get());
  wait();
  alone.allgather(there.data(), bounds, DataType::float32, stream.get());
  wait();
  CHECK(there.fetch() == std::vector<float>(1000, 0.5f));
  alone.abort();
  CHECK_THROWS_AS(alone.reached(), Error);
}

TEST_CASE("the end of a NCCL communicator leaves the thread its GPU", "[nccl]") {
  if (!can_have(2)) return;
  std::array<std::unique_ptr<cuda::NcclCommunicator>, 4> several;
  {
    const cuda::OnDevice on(1);
    for (std::size_t i = 0; i < 3; ++i) {
      several[i] = std::make_unique<cuda::NcclCommunicator>(cuda::make_nccl_id(), 0, 1);
      while (!several[i]->reached()) {
      }
    }
  }
  several[0].reset();
  CHECK(cuda::current_device() == 0);
  several[1]->abort();
  CHECK(cuda::current_device() == 0);
  cuda::NcclCommunicator::abort_all(several);
  CHECK(cuda::current_device() == 0);
  CHECK_THROWS_AS(several[2]->reached(), Error);
}

TEST_CASE("which dense algorithms run where", "[nccl]") {
  const auto refuse = [](const std::string& part, AllreduceConfig config) {
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) { AllreducePlan plan(comm, config); }) == "");
  };
  refuse("dense_nccl: it needs memory cuda", {.count = 100, .algorithm = "dense_nccl"});
  for (const std::string algorithm : {"dense_ring", "dense_rabenseifner", "dense_mpi", "auto"})
    refuse("in CUDA memory it must be sparse, auto_sparse, dense_nccl or dense_torus2d",
           {.count = 100, .memory = MemorySpace::cuda, .algorithm = algorithm});
}

TEST_CASE("a dense plan in CUDA memory has no sparse result", "[nccl]") {
  if (!can_have(2)) return;
  REQUIRE(unlike_errors(2, WEIR_ERR_ARGUMENT, "asked for a sparse result; dense_nccl has none", [](Communicator& comm) {
            const cuda::OnDevice on(comm.rank());
            AllreducePlan plan(comm, {.count = 100, .memory = MemorySpace::cuda, .algorithm = "dense_nccl"});
            Upload<float> there(std::vector<float>(100), nullptr);
            plan.run_sparse(there.data(), nullptr);
          }) == "");
}

}  // namespace weir::test
