// Parameters that every rank holds: gradients averaged by a weir::AllreducePlan, stepped by Adam alike on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>
#include <weir/checkpoint.hpp>
#include <weir/schedule.hpp>
#include <weir/weir.hpp>

#include "stall_clock.hpp"

namespace language_model {

/// How gradients of dense blocks travel.
struct Travel {
  std::string algorithm = "dense_ring";
  std::string compressor;  ///< empty: what the algorithm is made for
  std::string compressor_parameters;
  weir::Feedback error_feedback = weir::Feedback::automatic;
  double feedback_decay = 1;
  double density = 0.01;  ///< of sparse algorithms
};

struct DenseBlockConfig {
  std::string name;  ///< of a block of the schedule
  std::size_t parameters = 0;
  double initial_range = 0;  ///< values start uniform in [-initial_range, initial_range)
  double learning_rate = 0;
  double momentum = 0;  ///< of SGD; negative: Adam
  Travel travel;
  bool prioritised = false;  ///< travels by its place in the schedule; else all blocks are alike
  std::uint64_t seed = 1;
};

class DenseBlock {
 public:
  /// Collective. `schedule` and `clock` must outlive it.
  DenseBlock(const weir::Communicator& comm, weir::StepSchedule& schedule, const DenseBlockConfig& config, StallClock& clock);

  /// Valid until start().
  [[nodiscard]] std::span<const float> parameters() const { return parameters_; }
  [[nodiscard]] std::span<float> gradient() { return gradient_; }
  /// The gradient is complete: it travels now.
  void start();
  /// Waits for what start() has begun, if anything, and steps the parameters.
  void finish();
  void add_to(weir::Checkpoint& checkpoint);
  [[nodiscard]] double bytes_sent() const { return traffic_.bytes_sent; }
  /// Selection or encoding, decoding and what memory takes.
  [[nodiscard]] double compression_seconds() const { return traffic_.compression_seconds; }

 private:
  void step();
  void step_by_adam();

  DenseBlockConfig config_;
  weir::StepSchedule& schedule_;
  StallClock& clock_;
  weir::AllreducePlan plan_;
  std::vector<float> parameters_, gradient_, mean_, square_;
  std::int64_t steps_ = 0;
  bool in_flight_ = false;
  /// All doubles.
  struct {
    double bytes_sent = 0, compression_seconds = 0;
  } traffic_;
};

}  // namespace language_model
