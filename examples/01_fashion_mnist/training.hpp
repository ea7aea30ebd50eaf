// training.hpp: data-parallel training. Every rank computes a gradient on its share of the images, and one plan averages them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include <weir/optim.hpp>

#include "dataset.hpp"
#include "network.hpp"
#include "resume.hpp"

namespace fashion_mnist {

/// Where learning rate and momentum are applied, relative to the plan.
enum class Optimizer : std::uint8_t {
  automatic,  ///< `before` if the plan sends selected entries or does not compress; otherwise `after`
  before,     ///< before it: entries in the residual keep the learning rate and momentum that they were made with
  after,      ///< after it: the plan compresses gradients, and the optimizer uses what it delivers
  lars        ///< after it, with steps of each layer in proportion to its weights
};

struct Options {
  std::string algorithm = "oktopk";
  std::string compressor;  ///< if empty, the algorithm's default
  std::string compressor_parameters;
  weir::Feedback error_feedback = weir::Feedback::automatic;
  double feedback_decay = 1;
  Optimizer optimizer = Optimizer::automatic;
  double density = 0.01;
  std::string threshold = "exact";
  double density_warmup_epochs = 0;  ///< sparse algorithms: epochs in which the density falls from 25 % to its target
  int epochs = 8;
  int batch = 128;  ///< images per rank and step
  double learning_rate = 0.2;
  double momentum = 0.9;
  double trust_coefficient = 0.02;  ///< for LARS
  double learning_rate_warmup_epochs = 0.5;
  int evaluate_every = 50;  ///< steps between two points of the curve
  std::uint64_t seed = 1;
  CheckpointOptions checkpoint;

  /// Returns the name of the run and of its files: the algorithm, and the compressor if one is set.
  [[nodiscard]] std::string name() const { return compressor.empty() ? algorithm : algorithm + "+" + compressor; }
};

/// The state of the training after some steps. Sums and means are over all ranks, the same on each.
struct CurvePoint {
  std::int64_t step = 0;
  double epoch = 0;
  double bytes_per_rank = 0;  ///< sent so far
  double seconds = 0;         ///< trained so far, evaluation excluded
  double loss = 0;            ///< mean over the steps since the previous point
  double accuracy = 0;        ///< on the test images
};

/// The parts of the time of a step, in seconds.
struct StepSplit {
  double compute = 0;    ///< forward and backward pass, and the update of the parameters
  double selection = 0;  ///< the plan's error feedback, and its selection or encoding
  double exchange = 0;   ///< the plan's messages and reductions, including waits
  double apply = 0;      ///< the plan's decoding, and its bookkeeping after the messages
};

struct TrainingResult {
  int ranks = 0;
  bool sparse = false;
  bool compressed = false;  ///< gradients travel in a compressor's format
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  StepSplit split;  ///< summed over all steps, mean of the ranks
  std::vector<CurvePoint> curve;
  bool stopped = false;  ///< by a signal, before the end; started again with the same folder, the training continues
};

/// Receives the progress of the training, on every rank.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(std::int64_t step, std::int64_t steps, const CurvePoint& latest) = 0;
};

class Trainer {
 public:
  /// Collective. The data sets must outlive the trainer.
  Trainer(MPI_Comm comm, const Dataset& train, const Dataset& test, Options options);
  /// Collective. Trains for all epochs. Starts from the newest checkpoint if there is one.
  TrainingResult run(Observer& observer);

 private:
  /// Restores the newest checkpoint. Returns the number of steps already done.
  std::int64_t resume(std::vector<CurvePoint>& curve);
  void step(std::int64_t number);
  void update_parameters(float rate, float momentum);
  /// Collective. Makes a LARS optimizer for the network's arrays.
  void make_layer_optimizer();
  [[nodiscard]] double learning_rate(std::int64_t step) const;
  CurvePoint measure(std::int64_t step);
  double test_accuracy();
  /// Collective. Returns the mean of `value` over the ranks.
  [[nodiscard]] double mean(double value) const;

  Options options_;
  MPI_Comm mpi_;
  weir::Communicator comm_;
  const Dataset& test_;
  Sampler sampler_;
  std::int64_t steps_;
  Network network_;
  weir::AllreducePlan plan_;
  bool sparse_;
  bool after_;    ///< true if the optimizer comes after the plan
  bool entries_;  ///< true if the plan delivers selected entries instead of a whole array
  std::vector<float> parameters_;
  std::vector<float> velocity_;                ///< step with momentum: this rank's before the plan, or the averaged one after it
  std::vector<float> update_;                  ///< the plan's input and output; empty if velocity_ is used for them
  std::optional<weir::LayerOptimizer> lars_;   ///< has its own velocity
  std::vector<float*> layer_weights_;          ///< into parameters_
  std::vector<const float*> layer_gradients_;  ///< into update_
  /// Sums on this rank over all steps. `loss` and `losses` start again at each point of the curve. Saved as an array of doubles.
  struct Tally {
    StepSplit split;
    double seconds = 0;
    double bytes_sent = 0;
    double loss = 0, losses = 0;
  } tally_;
  Resume resume_;
};

}  // namespace fashion_mnist
