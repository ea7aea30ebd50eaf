#include "dense_block.hpp"

#include <algorithm>
#include <cmath>

#include "random.hpp"

namespace language_model {
namespace {

weir::AllreduceConfig plan_config(const weir::StepSchedule& schedule, const DenseBlockConfig& config) {
  weir::AllreduceConfig plan;
  plan.count = static_cast<std::int64_t>(config.parameters);
  plan.algorithm = config.travel.algorithm;
  plan.density = config.travel.density;
  plan.compressor = config.travel.compressor;
  plan.compressor_parameters = config.travel.compressor_parameters;
  plan.error_feedback = config.travel.error_feedback;
  plan.feedback_decay = config.travel.feedback_decay;
  plan.seed = static_cast<int>(config.seed % 1'000'000'000);
  plan.priority = config.prioritised ? schedule.priority(config.name) : 0;
  plan.name = config.name;
  return plan;
}

}  // namespace

DenseBlock::DenseBlock(const weir::Communicator& comm, weir::StepSchedule& schedule, const DenseBlockConfig& config,
                       StallClock& clock)
    : config_(config),
      schedule_(schedule),
      clock_(clock),
      plan_(comm, plan_config(schedule, config)),
      parameters_(config.parameters),
      gradient_(config.parameters),
      mean_(config.parameters),
      square_(config.parameters) {
  Random random(config.seed);
  std::ranges::generate(parameters_, [&] { return static_cast<float>(config.initial_range * (2 * random.uniform() - 1)); });
}

void DenseBlock::start() {
  const Stopwatch watch(clock_.stall);
  schedule_.started(config_.name, plan_.start(std::span<float>(gradient_)));
  in_flight_ = true;
}

void DenseBlock::finish() {
  if (!in_flight_) return;
  {
    const Stopwatch watch(clock_.stall);
    schedule_.wait(config_.name);
  }
  in_flight_ = false;
  const weir::Statistics& statistics = plan_.statistics();
  traffic_.bytes_sent += static_cast<double>(statistics.payload_bytes_sent + statistics.control_bytes_sent);
  traffic_.compression_seconds += statistics.seconds_select + statistics.seconds_apply;
  step();
}

void DenseBlock::add_to(weir::Checkpoint& checkpoint) {
  const std::string& name = config_.name;
  checkpoint.add(name, plan_);
  checkpoint.add_replicated(name + ".parameters", std::span(parameters_));
  checkpoint.add_replicated(name + ".mean", std::span(mean_));
  checkpoint.add_replicated(name + ".square", std::span(square_));
  checkpoint.add_replicated(name + ".steps", std::span(&steps_, 1));
  checkpoint.add_local(name + ".traffic", std::span(&traffic_.bytes_sent, sizeof(traffic_) / sizeof(double)));
}

void DenseBlock::step() {
  if (config_.momentum < 0) return step_by_adam();
  const auto rate = static_cast<float>(config_.learning_rate), momentum = static_cast<float>(config_.momentum);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    mean_[i] = momentum * mean_[i] + gradient_[i];
    parameters_[i] -= rate * mean_[i];
  }
}

void DenseBlock::step_by_adam() {
  constexpr double beta1 = 0.9, beta2 = 0.999;
  constexpr float epsilon = 1e-8F, keep1 = beta1, keep2 = beta2;
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const auto rate = static_cast<float>(config_.learning_rate * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t)));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    mean_[i] = keep1 * mean_[i] + (1 - keep1) * gradient_[i];
    square_[i] = keep2 * square_[i] + (1 - keep2) * gradient_[i] * gradient_[i];
    parameters_[i] -= rate * mean_[i] / (std::sqrt(square_[i]) + epsilon);
  }
}

}  // namespace language_model
