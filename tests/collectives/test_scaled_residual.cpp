// test_scaled_residual.cpp: a plan that is informed of a change of its gradients' scale continues bit for bit like a plan whose
// gradients always had one scale.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <weir/fusion.hpp>

#include "support/catch.hpp"
#include "support/plan_states.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Returns the scale of the gradients of run `t`.
double scale_of(int t) {
  return std::array{1.0, 0x1p30, 0x1p29, 0x1p29, 0x1p-20, 0x1p3, 1.0, 0x1p5}[static_cast<std::size_t>(t % 8)];
}

template <class T>
bool is_scaled(std::span<const T> x, std::span<const T> y, double scale) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](T a, T b) { return static_cast<T>(a * scale) == b; });
}

template <class T>
void scale_and_compare(const StateMachine& machine, const AllreduceConfig& config) {
  RankCheck check;
  run_ranks(machine.ranks,
            [&](Communicator& comm) {
              AllreducePlan plain(comm, config), scaled(comm, config);
              double last = 1;
              for (int t = 0; t < 12; ++t) {
                std::vector<T> x = make_input<T>(Input::heavy_tailed, config.count, comm.rank(), comm.size(), t), y = x;
                if (config.count > 0 && t == 5 && comm.rank() == 0) x[0] = y[0] = std::numeric_limits<T>::quiet_NaN();  // skipped
                const double scale = scale_of(t);
                for (T& value : y) value *= static_cast<T>(scale);
                if (scale != last) scaled.scale_residual(scale / last);
                last = scale;
                plain.run(x);
                scaled.run(y);
                const std::string where = " of run " + std::to_string(t) + ", rank " + std::to_string(comm.rank());
                check.that(is_scaled<T>(x, y, scale), "the update" + where);
                check.that(is_scaled<T>(plain.residual<T>(), scaled.residual<T>(), scale), "the residual" + where);
              }
            },
            {.machine = machine.description});
  INFO(text_of(machine, config));
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("a scale that changes between runs changes nothing else", "[scale]") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory || row.packed()) continue;
    for (const StateMachine& machine : state_machines) {
      for (const std::string& threshold : all_thresholds) {
        if (left_out(2)) continue;
        AllreduceConfig config = config_of<float>(row);
        if (row.sparse()) set_threshold(config, threshold);
        scale_and_compare<float>(machine, config);
      }
      AllreduceConfig config = config_of<double>(row);
      scale_and_compare<double>(machine, config);
      config.count = 0;
      config.k = 0;
      scale_and_compare<double>(machine, config);
    }
  }
}

TEST_CASE("what else is kept of gradients follows a scale", "[scale]") {
  for (const StateMachine& machine : state_machines) {
    for (const char* const algorithm : {"oktopk", "hi_oktopk", "topk_dsa"}) {
      AllreduceConfig config = config_of<float>(find_allreduce(algorithm));
      config.wire_values = WireValues::bfloat16;
      config.feedback_decay = 0.5;
      config.feedback_gain = 2;
      scale_and_compare<float>(machine, config);
      config = config_of<float>(find_allreduce(algorithm));
      config.compressor = "dgc";
      config.compressor_parameters = "clip=0";
      scale_and_compare<float>(machine, config);
      config = config_of<float>(find_allreduce(algorithm));
      config.dense_iterations = config.warmup_iterations = 0;
      config.error_feedback = Feedback::ef21;
      scale_and_compare<float>(machine, config);
    }
    AllreduceConfig packed = config_of<float>(find_allreduce("packed_allgather"));
    packed.compressor = "ef_sign_sgd";
    packed.error_feedback = Feedback::residual;
    packed.dense_iterations = packed.warmup_iterations = 0;
    scale_and_compare<float>(machine, packed);
  }
}

TEST_CASE("a factor that the type cannot hold is refused, and the residual stays", "[scale]") {
  const auto refused = [](auto& object, double factor) {
    CHECK_THROWS_WITH(object(factor), Catch::Matchers::Contains("the factor must be positive and finite as float"));
  };
  run_ranks(1, [&](Communicator& comm) {
    AllreducePlan narrow(comm, {.count = 4, .k = 1}), wide(comm, {.count = 4, .type = DataType::float64, .k = 1});
    FusedAllreduce fused(comm, FusionConfig{}, std::vector<FusedTensor>{{.name = "a", .count = 4}});
    std::vector<float> gradient = {1, 2, 3, 4};
    std::vector<double> wide_gradient = {1, 2, 3, 4};
    narrow.run(gradient);
    wide.run(wide_gradient);
    const auto scale_narrow = [&](double factor) { narrow.scale_residual(factor); };
    const auto scale_wide = [&](double factor) { wide.scale_residual(factor); };
    const auto scale_fused = [&](double factor) { fused.scale_residuals(factor); };
    for (const double factor :
         {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 5e-324}) {
      refused(scale_narrow, factor);
      refused(scale_wide, factor);
      refused(scale_fused, factor);
    }
    for (const double factor : {1e39, 1e300, 1e-45, 1e-300}) {
      refused(scale_narrow, factor);
      refused(scale_fused, factor);
    }
    CHECK(std::ranges::equal(narrow.residual<float>(), std::array{1.0F, 2.0F, 3.0F, 0.0F}));
    wide.scale_residual(1e39);
    CHECK(wide.residual<double>()[1] == 2e39);
  });
}

TEST_CASE("what a factor makes too large for the type becomes the largest value, and later runs go on", "[scale]") {
  constexpr float most = std::numeric_limits<float>::max();
  const std::array kept = {0.0F, most, -most, 0x1p40F};
  const auto gradient = [] { return std::vector<float>{2e30F, 1e30F, -1e30F, 1}; };
  run_ranks(1, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 4, .k = 1, .threshold = "reuse", .non_finite = NonFinite::error});
    std::vector<float> x = gradient();
    plan.run(x);
    plan.scale_residual(0x1p40);
    CHECK(std::ranges::equal(plan.residual<float>(), kept));
    for (int t = 0; t < 3; ++t) {
      x.assign(4, 1);
      plan.run(x);
    }
    CHECK(plan.residual<float>()[1] == 2);  // the first of them delivered it

    FusedAllreduce fused(comm, FusionConfig{.density = 0.25}, std::vector<FusedTensor>{{.name = "a", .count = 4}});
    x = gradient();
    fused.ready(0, std::span(x));
    fused.wait_all();
    fused.scale_residuals(0x1p40);
    CHECK(std::ranges::equal(fused.residual<float>(0), kept));
    x.assign(4, 1);
    fused.ready(0, std::span(x));
    fused.wait_all();
  });
}

TEST_CASE("fused tensors follow a scale", "[scale]") {
  const std::vector<FusedTensor> tensors = {
      {.name = "a", .count = 701}, {.name = "b", .count = 30, .dense = true}, {.name = "c", .count = 2000}};
  for (const FusionScheme scheme : {FusionScheme::none, FusionScheme::behind, FusionScheme::ahead, FusionScheme::ahead_tapered}) {
    RankCheck check;
    run_ranks(3,
              [&](Communicator& comm) {
                const FusionConfig config{.scheme = scheme, .density = 0.03, .threshold = "reuse"};
                FusedAllreduce plain(comm, config, tensors), scaled(comm, config, tensors);
                double last = 1;
                for (int t = 0; t < 9; ++t) {
                  const double scale = scale_of(t);
                  if (scale != last) scaled.scale_residuals(scale / last);
                  last = scale;
                  std::vector<std::vector<float>> x, y;
                  for (const FusedTensor& tensor : tensors) {
                    x.push_back(make_input<float>(Input::heavy_tailed, tensor.count, comm.rank(), comm.size(), t));
                    y.push_back(x.back());
                    for (float& value : y.back()) value *= static_cast<float>(scale);
                  }
                  for (int i = 2; i >= 0; --i) plain.ready(i, std::span(x[static_cast<std::size_t>(i)]));
                  plain.wait_all();
                  for (int i = 2; i >= 0; --i) scaled.ready(i, std::span(y[static_cast<std::size_t>(i)]));
                  scaled.wait_all();
                  for (int i = 0; i < 3; ++i) {
                    const auto place = static_cast<std::size_t>(i);
                    check.that(is_scaled<float>(x[place], y[place], scale), "the update of tensor " + std::to_string(i));
                    check.that(is_scaled<float>(plain.residual<float>(i), scaled.residual<float>(i), scale), "a residual");
                  }
                }
              },
              {.machine = "node:3 rank:1"});
    INFO("scheme " << static_cast<int>(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("factors that make no sense, and a run in flight", "[scale]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 100, .k = 3, .name = "x"});
    FusedAllreduce fused(comm, {}, std::vector<FusedTensor>{{.name = "a", .count = 10}});
    const auto refused = [&](weir_status status, const std::string& part, const auto& call) {
      try {
        call();
        check.that(false, "accepted");
      } catch (const Error& error) {
        check.that(error.status() == status && std::string(error.what()).find(part) != std::string::npos, error.what());
      }
    };
    for (const double factor : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      refused(WEIR_ERR_ARGUMENT, "positive and finite", [&] { plan.scale_residual(factor); });
      refused(WEIR_ERR_ARGUMENT, "positive and finite", [&] { fused.scale_residuals(factor); });
    }
    std::vector<float> gradient(100, 1), tensor(10, 1);
    Operation run = plan.start(gradient);
    refused(WEIR_ERR_BUSY, "wait before scaling", [&] { plan.scale_residual(2); });
    run.wait();
    fused.ready(0, std::span(tensor));
    refused(WEIR_ERR_BUSY, "within an iteration", [&] { fused.scale_residuals(2); });
    fused.wait_all();
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
