// dense_block.hpp: parameters that every rank holds. A weir::AllreducePlan averages their gradients, and every rank takes the same
// step of Adam or SGD.
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

/// Says how gradients of dense blocks travel.
struct Travel {
  std::string algorithm = "dense_ring";
  std::string compressor;  ///< if empty, the algorithm's default
  std::string compressor_parameters;
  weir::Feedback error_feedback = weir::Feedback::automatic;
  double feedback_decay = 1;
  double density = 0.01;  ///< for sparse algorithms
};

struct DenseBlockConfig {
  std::string name;  ///< name of the block in the schedule
  std::size_t parameters = 0;
  double initial_range = 0;  ///< initial values are uniform in [-initial_range, initial_range)
  double learning_rate = 0;
  double momentum = 0;  ///< for SGD; negative for Adam
  Travel travel;
  bool prioritised = false;  ///< if true, its place in the schedule gives its priority; otherwise all blocks have the same
  std::uint64_t seed = 1;
};

class DenseBlock {
 public:
  /// Collective. `schedule` and `clock` must outlive the block.
  DenseBlock(const weir::Communicator& comm, weir::StepSchedule& schedule, const DenseBlockConfig& config, StallClock& clock);

  /// Returns the parameters, valid until start().
  [[nodiscard]] std::span<const float> parameters() const { return parameters_; }
  [[nodiscard]] std::span<float> gradient() { return gradient_; }
  /// Starts the exchange of the gradient, which must be complete.
  void start();
  /// Waits for the exchange that start() began, if any, and updates the parameters.
  void finish();
  void add_to(weir::Checkpoint& checkpoint);
  [[nodiscard]] double bytes_sent() const { return traffic_.bytes_sent; }
  /// Returns the seconds spent in selection or encoding, decoding and copies.
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
  /// Saved as an array of doubles.
  struct {
    double bytes_sent = 0, compression_seconds = 0;
  } traffic_;
};

}  // namespace language_model
