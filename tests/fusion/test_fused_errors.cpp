// A rank's mistake with a tensor is the same error on all ranks, which names the tensor. The next iteration works.
#include <atomic>
#include <limits>
#include <thread>
#include <weir/fusion.hpp>

#include "fusion/fused_inputs.hpp"
#include "support/catch.hpp"
#include "support/same_bits.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using Gradients = std::vector<std::vector<float>>;

std::vector<FusedTensor> few_tensors() {
  return {{.name = "first", .count = 200},
          {.name = "second", .count = 300},
          {.name = "rare", .count = 40, .optional = true},
          {.name = "bias", .count = 10, .dense = true},
          {.name = "last", .count = 150}};
}

FusionConfig config_of(FusionScheme scheme) {
  return {.scheme = scheme, .buffer_bytes = 300 * 4, .density = 0.1, .algorithm = "topk_allgather", .name = "net"};
}

/// A rank's iteration: hands in tensors, then waits.
using Body = std::function<void(FusedAllreduce&, int rank, Gradients&)>;

void all_ready(FusedAllreduce& fused, Gradients& gradients, const std::vector<int>& but = {}) {
  for (const int i : order_of(gradients.size(), 0))
    if (std::find(but.begin(), but.end(), i) == but.end()) fused.ready(i, std::span<float>(gradients[static_cast<std::size_t>(i)]));
}

template <class Done>
void while_not(Done done) {
  while (!done()) std::this_thread::yield();
}

/// Runs a good iteration, then `body`, which must throw the same error on all ranks, then good ones, for every scheme.
void expect_alike(weir_status status, const std::string& part, const Body& body, NonFinite non_finite = NonFinite::error) {
  constexpr int ranks = 4;
  for (const FusionScheme scheme : all_schemes) {
    SameErrors errors(ranks);
    std::vector<Gradients> after(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      FusionConfig config = config_of(scheme);
      config.non_finite = non_finite;
      const std::vector<FusedTensor> tensors = few_tensors();
      FusedAllreduce fused(comm, config, tensors);
      const auto good = [&](int t) {
        Gradients gradients = gradients_of<float>(tensors, comm.rank(), ranks, t);
        all_ready(fused, gradients);
        fused.wait_all();
        return gradients;
      };
      good(0);
      Gradients gradients = gradients_of<float>(tensors, comm.rank(), ranks, 1);
      errors.expect(comm.rank(), status, part, [&] { body(fused, comm.rank(), gradients); });
      good(2);
      after[static_cast<std::size_t>(comm.rank())] = good(3);
    });
    INFO(name_of(scheme));
    REQUIRE(errors.failure() == "");
    for (const Gradients& gradients : after) REQUIRE((gradients == after[0]));
  }
}

/// Returns the name in a timeout's text if tensor 'second' is missing. Only its rank knows which tensor of a buffer is missing, and
/// a buffer of `ahead` belongs to no particular tensor.
std::string name_of_waiting(FusionScheme scheme) {
  switch (scheme) {
    case FusionScheme::ahead:
      return "net: number of buffers";
    case FusionScheme::omgs:
    case FusionScheme::cupcake:
      return "'first' to 'last' (5 tensors)";
    default:
      return "'second'";
  }
}

}  // namespace

TEST_CASE("a tensor that is ready twice", "[fusion]") {
  expect_alike(WEIR_ERR_ARGUMENT, "fused 'net', tensor 'second': it was ready twice on rank 2", [](auto& fused, int rank, auto& g) {
    all_ready(fused, g);
    if (rank == 2) fused.ready(1, std::span<float>(g[1]));
    fused.wait_all();
  });
}

TEST_CASE("a tensor that was never described", "[fusion]") {
  for (const int number : {7, -3})
    expect_alike(WEIR_ERR_ARGUMENT, "rank 1 named a tensor that does not exist", [&](auto& fused, int rank, auto& g) {
      for (int tensor = 0; tensor < fused.size(); ++tensor)
        fused.ready(rank == 1 && tensor == 2 ? number : tensor, std::span<float>(g[static_cast<std::size_t>(tensor)]));
      fused.wait_all();
    });
  expect_alike(WEIR_ERR_ARGUMENT, "rank 1 named a tensor that does not exist, number 5: tensors are numbered 0 to 4",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g);
                 if (rank == 1) fused.ready(5, std::span<float>(g[1]));
                 fused.wait_all();
               });
  expect_alike(WEIR_ERR_ARGUMENT, "rank 3 named a tensor that does not exist", [](auto& fused, int rank, auto& g) {
    all_ready(fused, g);
    if (rank == 3) fused.wait(-1);
    fused.wait_all();
  });
}

TEST_CASE("another size, another type, no memory, the wrong memory", "[fusion]") {
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'second': rank 0 gave a gradient of 299 elements; it was described with 300",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, {1});
                 fused.ready(1, std::span<float>(g[1].data(), rank == 0 ? 299 : 300));
                 fused.wait_all();
               });
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'bias': rank 2 gave a gradient of another type; it takes float32",
               [](auto& fused, int rank, auto& g) {
                 std::vector<double> wide(10);
                 all_ready(fused, g, {3});
                 if (rank == 2)
                   fused.ready(3, std::span<double>(wide));
                 else
                   fused.ready(3, std::span<float>(g[3]));
                 fused.wait_all();
               });
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'last': rank 1 gave a null gradient; give 150 elements of float32",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, {4});
                 fused.ready_raw(4, rank == 1 ? nullptr : g[4].data(), 150);
                 fused.wait_all();
               });
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'first': the gradient of rank 3 is not aligned to its type float32",
               [](auto& fused, int rank, auto& g) {
                 g[0].resize(201);
                 all_ready(fused, g, {0});
                 fused.ready_raw(0, reinterpret_cast<char*>(g[0].data()) + (rank == 3 ? 2 : 0), 200);
                 fused.wait_all();
               });
}

TEST_CASE("a wait before all tensors were ready", "[fusion]") {
  const std::string text = "tensor 'first': rank 2 did not hand it in before its first wait";
  expect_alike(WEIR_ERR_ARGUMENT, text, [](auto& fused, int rank, auto& g) {
    all_ready(fused, g, rank == 2 ? std::vector<int>{0} : std::vector<int>{});
    fused.wait_all();
  });
  expect_alike(WEIR_ERR_ARGUMENT, text, [](auto& fused, int rank, auto& g) {
    all_ready(fused, g, rank == 2 ? std::vector<int>{0} : std::vector<int>{});
    fused.wait(rank == 1 ? 4 : 0);
    fused.wait_all();
  });
  expect_alike(WEIR_ERR_ARGUMENT, "rank 2 waited, and has handed in no gradient", [](auto& fused, int rank, auto& g) {
    if (rank == 2) fused.wait(0);  // before anything
    all_ready(fused, g);
    fused.wait_all();
  });
}

TEST_CASE("memory of another tensor", "[fusion]") {
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'first': rank 2 handed in memory of tensor 'second' for it",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, {0});
                 fused.ready(0, rank == 2 ? std::span<float>(g[1].data() + 99, 200) : std::span<float>(g[0]));
                 fused.wait_all();
               });
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'bias': rank 0 handed in memory of tensor 'last' for it",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, {3});
                 fused.ready(3, rank == 0 ? std::span<float>(g[4].data(), 10) : std::span<float>(g[3]));
                 fused.wait_all();
               });
}

TEST_CASE("others want an array from ready() until its update is in it", "[fusion]") {
  constexpr int ranks = 3;
  for (const FusionScheme scheme : all_schemes) {
    INFO(name_of(scheme));
    SameErrors by_plan(ranks), by_fused(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      const std::vector<FusedTensor> tensors = few_tensors();
      const std::vector<FusedTensor> lone{{.name = "lone", .count = 100}};
      FusedAllreduce fused(comm, config_of(scheme), tensors), other(comm, {.density = 0.1, .name = "other"}, lone);
      AllreducePlan plan(comm, {.count = 100, .density = 0.1, .name = "plan"});
      std::vector<float> own(100, 1);
      Gradients gradients = gradients_of<float>(tensors, comm.rank(), ranks, 0);
      const int last = comm.rank() == 0 ? 4 : 0;  // so that no buffer with tensor 4 travels before that
      all_ready(fused, gradients, {last});
      const std::span<float> wanted = comm.rank() == 1 ? std::span(gradients[4]).last(100) : std::span(own);
      by_plan.expect(comm.rank(), WEIR_ERR_ARGUMENT, "plan 'plan': the gradient of rank 1 overlaps that of another run",
                     [&] { plan.run(wanted); });
      by_fused.expect(comm.rank(), WEIR_ERR_ARGUMENT, "tensor 'lone': the gradient of rank 1 overlaps that of another run", [&] {
        other.ready(0, wanted);
        other.wait_all();
      });
      fused.ready(last, std::span<float>(gradients[static_cast<std::size_t>(last)]));
      fused.wait(4);
      plan.run(wanted);
      fused.wait_all();
    });
    REQUIRE(by_plan.failure() == "");
    REQUIRE(by_fused.failure() == "");
  }
}

// Otherwise some ranks would have used updates that others never get.
TEST_CASE("the same wait throws on all ranks, on the one that was wrong, too", "[fusion]") {
  const auto wait_for_each = [](FusedAllreduce& fused) {
    int waits = 0;
    try {
      for (; waits < fused.size(); ++waits) fused.wait(waits);
      fused.wait_all();
    } catch (const Error& error) {
      throw Error(error.status(), error.what() + (" after " + std::to_string(waits)));
    }
  };
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'last': rank 1 did not hand it in before its first wait",
               [&](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, rank == 1 ? std::vector<int>{4} : std::vector<int>{});
                 wait_for_each(fused);
               });
  expect_alike(WEIR_ERR_ARGUMENT, "it was ready twice on rank 1", [&](auto& fused, int rank, auto& g) {
    all_ready(fused, g);
    if (rank == 1) fused.ready(4, std::span<float>(g[4]));
    wait_for_each(fused);
  });
  expect_alike(WEIR_ERR_ARGUMENT, "rank 1 named a tensor that does not exist, number 7", [&](auto& fused, int rank, auto& g) {
    if (rank == 1) fused.ready(7, std::span<float>(g[4]));
    all_ready(fused, g);
    wait_for_each(fused);
  });
}

TEST_CASE("a wait for one tensor tells that it was not delivered", "[fusion]") {
  expect_alike(WEIR_ERR_NON_FINITE, "tensor 'first': the gradient of rank 1 holds NaN", [](auto& fused, int rank, auto& g) {
    if (rank == 1) g[0][3] = std::numeric_limits<float>::quiet_NaN();
    all_ready(fused, g);
    rank == 2 ? while_not([&] { return fused.test(0); }) : fused.wait(0);
  });
}

TEST_CASE("after a wait that throws, the other waits of the iteration have nothing to wait for", "[fusion]") {
  for (const FusionScheme scheme : all_schemes) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const std::vector<FusedTensor> tensors = few_tensors();
      FusedAllreduce fused(comm, config_of(scheme), tensors);
      for (int t = 0; t < 4; ++t) {
        Gradients gradients = gradients_of<float>(tensors, comm.rank(), comm.size(), t);
        const bool fails = t % 2 == 1;
        all_ready(fused, gradients, fails && comm.rank() == 1 ? std::vector<int>{0} : std::vector<int>{});
        int errors = 0;
        for (int i = 0; i < fused.size(); ++i) {
          try {
            // Ranks wait in different ways, and not all of them call wait_all() after an error.
            comm.rank() == 2 ? while_not([&] { return fused.test(i); }) : fused.wait(i);
          } catch (const Error&) {
            ++errors;
          }
        }
        if (!fails || comm.rank() != 0) fused.wait_all();
        check.that(errors == (fails ? 1 : 0), "errors of an iteration: " + std::to_string(errors));
      }
    });
    INFO(name_of(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a tensor that is ready after the first wait", "[fusion]") {
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'rare': it was ready on rank 0 after that rank had begun to wait",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, {2});
                 if (rank == 0) {
                   fused.wait(4);
                   fused.ready(2, std::span<float>(g[2]));
                 }
                 fused.wait_all();
               });
}

TEST_CASE("a tensor that is skipped and not optional", "[fusion]") {
  expect_alike(WEIR_ERR_ARGUMENT, "tensor 'second': rank 1 skipped it: describe it as optional",
               [](auto& fused, int rank, auto& g) {
                 all_ready(fused, g, {1});
                 if (rank == 1)
                   fused.skip(1, std::span<float>(g[1]));
                 else
                   fused.ready(1, std::span<float>(g[1]));
                 fused.wait_all();
               });
}

TEST_CASE("gradients that are not finite", "[fusion]") {
  for (const int tensor : {1, 3}) {
    const std::string name = tensor == 1 ? "second" : "bias";
    expect_alike(WEIR_ERR_NON_FINITE, "tensor '" + name + "': the gradient of rank 2 holds NaN or infinity",
                 [&](auto& fused, int rank, auto& g) {
                   if (rank == 2) g[static_cast<std::size_t>(tensor)][7] = std::numeric_limits<float>::quiet_NaN();
                   all_ready(fused, g);
                   fused.wait(tensor);
                   fused.wait_all();
                 });
  }
}

TEST_CASE("what is not finite is skipped where that is asked for, and its buffer alone", "[fusion]") {
  for (const FusionScheme scheme : all_schemes) {
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      FusionConfig config = config_of(scheme);
      config.non_finite = NonFinite::skip;
      const std::vector<FusedTensor> tensors = few_tensors();
      FusedAllreduce fused(comm, config, tensors);
      Gradients gradients = gradients_of<float>(tensors, comm.rank(), 4, 0);
      if (comm.rank() == 1) gradients[1][3] = std::numeric_limits<float>::infinity();
      all_ready(fused, gradients);
      fused.wait_all();
      check.that(fused.statistics().buffers_skipped >= 1, "buffers_skipped");
      check.that(
          std::all_of(gradients[1].begin(), gradients[1].end(), [](float x) { return x == 0; }) || scheme == FusionScheme::ahead,
          "the update of what was skipped");
      for (int i = 0; i < fused.size(); ++i)
        for (const float x : fused.residual<float>(i)) check.that(std::isfinite(x), "residual");
    });
    INFO(name_of(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("descriptions that differ between ranks, or are wrong", "[fusion]") {
  const auto refused = [](const std::string& part, weir_status status, auto change,
                          FusionScheme scheme = FusionScheme::ahead_inter) {
    const std::string failure = unlike_errors(3, status, part, [&](Communicator& comm) {
      FusionConfig config = config_of(scheme);
      std::vector<FusedTensor> tensors = few_tensors();
      change(comm.rank(), config, tensors);
      FusedAllreduce fused(comm, config, tensors);
    });
    REQUIRE(failure == "");
  };
  refused("ranks disagree about a tensor: rank 0 has 'second' of 300 elements", WEIR_ERR_MISMATCH,
          [](int rank, auto&, auto& t) { t[1].count += rank == 2 ? 1 : 0; });
  refused("rank 1 has 'other'", WEIR_ERR_MISMATCH, [](int rank, auto&, auto& t) {
    if (rank == 1) t[4].name = "other";
  });
  refused("ranks disagree about number of tensors: rank 0 has '5', rank 1 has '4'", WEIR_ERR_MISMATCH,
          [](int rank, auto&, auto& t) {
            if (rank == 1) t.pop_back();
          });
  refused("ranks disagree about scheme: rank 0 has ahead_inter, rank 1 has none", WEIR_ERR_MISMATCH, [](int rank, auto& c, auto&) {
    if (rank == 1) c.scheme = FusionScheme::none;
  });
  refused("ranks disagree about algorithm: rank 0 has 'oktopk', rank 1 has 'oktopk window=8'", WEIR_ERR_MISMATCH,
          [](int rank, auto& c, auto&) {
            c.algorithm = "oktopk";
            if (rank == 1) c.algorithm_parameters = "window=8";
          });
  refused("algorithm_parameters: window of oktopk is '0': it must be a whole number from 1 to 65536", WEIR_ERR_ARGUMENT,
          [](int, auto& c, auto&) {
            c.algorithm = "oktopk";
            c.algorithm_parameters = "window=0";
          });
  refused("algorithm_parameters: auto has no parameter 'radius': it has window (4),", WEIR_ERR_ARGUMENT, [](int, auto& c, auto&) {
    c.algorithm = "auto";
    c.algorithm_parameters = "radius=4";
  });
  refused("rank 2: tensor 4: its name, 'first', is that of an earlier one", WEIR_ERR_ARGUMENT, [](int rank, auto&, auto& t) {
    if (rank == 2) t[4].name = "first";
  });
  refused("tensor 0: its name is empty", WEIR_ERR_ARGUMENT, [](int, auto&, auto& t) { t[0].name = ""; });
  refused("none of them '/'", WEIR_ERR_ARGUMENT, [](int, auto&, auto& t) { t[0].name = "a/b"; });
  refused("tensor 'first': count is -1", WEIR_ERR_ARGUMENT, [](int, auto&, auto& t) { t[0].count = -1; });
  refused("tensor 'first': k is 201", WEIR_ERR_ARGUMENT, [](int, auto&, auto& t) { t[0].k = 201; });
  refused("tensor 'first': density is 1.5", WEIR_ERR_ARGUMENT, [](int, auto&, auto& t) { t[0].density = 1.5; });
  refused("algorithm is dense_ring: it must be sparse", WEIR_ERR_ARGUMENT, [](int, auto& c, auto&) { c.algorithm = "dense_ring"; });
  refused("there is no allreduce algorithm 'oktopkk'", WEIR_ERR_ARGUMENT, [](int, auto& c, auto&) { c.algorithm = "oktopkk"; });
  refused("error_feedback is ef21", WEIR_ERR_ARGUMENT, [](int, auto& c, auto&) { c.error_feedback = Feedback::ef21; });
  refused("type is bfloat16: it must be float32 or float64", WEIR_ERR_ARGUMENT,
          [](int, auto& c, auto&) { c.type = DataType::bfloat16; });
  refused("density is 0", WEIR_ERR_ARGUMENT, [](int, auto& c, auto&) { c.density = 0; });
  refused("scheme is ahead: the tensors have", WEIR_ERR_ARGUMENT, [](int, auto& c, auto& t) {
    c.scheme = FusionScheme::ahead;
    t[0].count = t[1].count = (std::int64_t{1} << 31) + 5;
  });
}

TEST_CASE("a tensor that never comes ends in a timeout that names it, or the buffer that waits for it", "[fusion]") {
  for (const FusionScheme scheme : all_schemes) {
    if (left_out(2)) continue;
    RankCheck check;
    std::atomic<int> timed_out = 0;
    run_ranks(3,
              [&](Communicator& comm) {
                const std::vector<FusedTensor> tensors = few_tensors();
                FusedAllreduce fused(comm, config_of(scheme), tensors);
                set_timeout(comm, 0.3);
                Gradients gradients = gradients_of<float>(tensors, comm.rank(), 3, 0);
                all_ready(fused, gradients, comm.rank() == 1 ? std::vector<int>{1} : std::vector<int>{});
                while (comm.rank() == 1 && timed_out < 2) {  // it takes part, except that tensor 1 never comes
                  comm.state()->engine.poll();
                  std::this_thread::yield();
                }
                if (comm.rank() == 1) return;
                std::string text;
                try {
                  fused.wait_all();
                } catch (const Error& error) {
                  text = error.what();
                }
                ++timed_out;
                check.that(text.find(name_of_waiting(scheme)) != std::string::npos, text);
                weir_status then = WEIR_OK;
                try {
                  fused.ready(0, std::span<float>(gradients[0]));
                } catch (const Error& error) {
                  then = error.status();
                }
                check.that(then == WEIR_ERR_STATE, "ready() after that");
              },
              {.settings = {.dump = ""}});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("buffers with the first tensors of the forward pass are the most urgent", "[fusion]") {
  RankCheck check;
  for (const FusionScheme scheme :
       {FusionScheme::none, FusionScheme::behind, FusionScheme::ahead_inter, FusionScheme::ahead_tapered}) {
    std::atomic<bool> seen = false;
    run_ranks(2, [&](Communicator& comm) {
      const std::vector<FusedTensor> tensors = few_tensors();
      FusedAllreduce fused(comm, config_of(scheme), tensors);
      Gradients gradients = gradients_of<float>(tensors, comm.rank(), 2, 0);
      if (comm.rank() == 1) while_not([&] { return seen.load(); });
      all_ready(fused, gradients);
      if (comm.rank() == 0) {
        const std::string in_flight = comm.state()->engine.dump();  // the most urgent first
        const std::size_t first = in_flight.find("'first'"), second = in_flight.find("'second'"), last = in_flight.find("'last'");
        check.that(first < second && second < last && last != std::string::npos, in_flight);
        seen = true;
      }
      fused.wait_all();
    });
    INFO(name_of(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("an object that goes within an iteration ends that of the others with an error", "[fusion]") {
  for (const FusionScheme scheme : all_schemes) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const std::vector<FusedTensor> tensors = few_tensors();
      Gradients gradients = gradients_of<float>(tensors, comm.rank(), 3, 0);
      FusedAllreduce fused(comm, config_of(scheme), tensors);
      if (comm.rank() == 2) {
        fused.ready(4, std::span<float>(gradients[4]));
        return;
      }
      all_ready(fused, gradients);
      try {
        fused.wait_all();
        check.that(false, "no error");
      } catch (const Error& error) {
        check.that(std::string(error.what()).find("rank 2 destroyed it within an iteration") != std::string::npos, error.what());
      }
    });
    INFO(name_of(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("an object that goes after a wait ends the iteration of the others with an error", "[fusion]") {
  for (const FusionScheme scheme : all_schemes) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const std::vector<FusedTensor> tensors = few_tensors();
      Gradients gradients = gradients_of<float>(tensors, comm.rank(), 3, 0);
      FusedAllreduce fused(comm, config_of(scheme), tensors);
      all_ready(fused, gradients);
      fused.wait(0);
      if (comm.rank() == 2) return;
      try {
        fused.wait_all();
        check.that(false, "no error");
      } catch (const Error& error) {
        check.that(std::string(error.what()).find("rank 2 destroyed it within an iteration") != std::string::npos, error.what());
      }
    });
    INFO(name_of(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a timeout is told to those who ask again and again, too", "[fusion]") {
  RankCheck check;
  std::atomic<int> timed_out = 0;
  run_ranks(3,
            [&](Communicator& comm) {
              const std::vector<FusedTensor> tensors = few_tensors();
              FusedAllreduce fused(comm, config_of(FusionScheme::ahead_inter), tensors);
              set_timeout(comm, 0.3);
              Gradients gradients = gradients_of<float>(tensors, comm.rank(), 3, 0);
              if (comm.rank() != 1) {
                all_ready(fused, gradients);
                try {
                  while (!fused.test(0)) std::this_thread::yield();
                  check.that(false, "no error");
                } catch (const Error& error) {
                  check.that(error.status() == WEIR_ERR_TIMEOUT, error.what());
                }
                ++timed_out;
                try {
                  fused.reset();
                } catch (const Error& error) {
                  check.that(error.status() == WEIR_ERR_STATE, error.what());
                }
              }
              while (timed_out < 2) std::this_thread::yield();
            },
            {.settings = {.dump = ""}});
  REQUIRE(check.failure() == "");
}

TEST_CASE("nothing of an iteration is delivered ahead where a buffer fails, and the next goes on", "[fusion]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    const std::vector<FusedTensor> tensors = few_tensors();
    FusedAllreduce fused(comm, config_of(FusionScheme::ahead), tensors);
    Gradients gradients = gradients_of<float>(tensors, comm.rank(), 3, 0);
    const Gradients before = gradients;
    gradients[4][3] = comm.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : gradients[4][3];
    all_ready(fused, gradients);
    try {
      fused.wait_all();
      check.that(false, "no error");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_NON_FINITE, error.what());
    }
    for (const std::size_t i : {0, 1, 2}) {
      check.that(gradients[i] == before[i], "gradient of " + tensors[i].name);
      for (const float x : fused.residual<float>(static_cast<int>(i)))
        check.that(std::abs(x) <= 1e-3F, "residual of " + tensors[i].name);
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("names find tensors, or the closest", "[fusion]") {
  run_ranks(1, [&](Communicator& comm) {
    const std::vector<FusedTensor> tensors = few_tensors();
    const FusedAllreduce fused(comm, config_of(FusionScheme::none), tensors);
    REQUIRE(fused.tensor("rare") == 2);
    REQUIRE(fused.size() == 5);
    REQUIRE_THROWS_WITH(fused.tensor("secnd"), "fused 'net': there is no tensor 'secnd' among its 5: the closest is 'second'");
    REQUIRE_THROWS_WITH(fused.description(5), "fused 'net': there is no tensor 5: they are numbered 0 to 4");
  });
}

}  // namespace weir::test
