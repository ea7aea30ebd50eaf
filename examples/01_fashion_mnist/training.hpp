// Data-parallel training: every rank computes a gradient on its share of the images, one plan averages them all.
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

/// Where learning rate and momentum enter.
enum class Optimizer : std::uint8_t {
  automatic,  ///< before, where entries travel or nothing is compressed; else after
  before,     ///< what waits in a residual keeps the learning rate and the momentum that it was made with
  after,      ///< gradients are compressed, and the optimizer sees what is delivered
  lars        ///< after, and every layer steps in proportion to its weights
};

struct Options {
  std::string algorithm = "oktopk";
  std::string compressor;  ///< empty: what the algorithm is made for
  std::string compressor_parameters;
  weir::Feedback error_feedback = weir::Feedback::automatic;
  double feedback_decay = 1;
  Optimizer optimizer = Optimizer::automatic;
  double density = 0.01;
  std::string threshold = "exact";
  double density_warmup_epochs = 0;  ///< sparse: the density falls from 25 % to its target during these
  int epochs = 8;
  int batch = 128;  ///< images per rank and step
  double learning_rate = 0.2;
  double momentum = 0.9;
  double trust_coefficient = 0.02;  ///< of LARS
  double learning_rate_warmup_epochs = 0.5;
  int evaluate_every = 50;  ///< steps between two points of the curve
  std::uint64_t seed = 1;
  CheckpointOptions checkpoint;

  /// Returns the name of the run and of its files: the algorithm, and the compressor if one is named.
  [[nodiscard]] std::string name() const { return compressor.empty() ? algorithm : algorithm + "+" + compressor; }
};

/// The state of the training after some steps. Sums and means are over all ranks, the same on each.
struct CurvePoint {
  std::int64_t step = 0;
  double epoch = 0;
  double bytes_per_rank = 0;  ///< sent so far
  double seconds = 0;         ///< trained so far, evaluation excluded
  double loss = 0;            ///< mean over the steps since the last point
  double accuracy = 0;        ///< on the test images
};

/// Where the time of a step goes, in seconds.
struct StepSplit {
  double compute = 0;    ///< forward, backward and the step of the parameters
  double selection = 0;  ///< the plan's compensation, and its selection or encoding
  double exchange = 0;   ///< the plan's messages and reductions, waiting included
  double apply = 0;      ///< the plan's decoding, and its own bookkeeping after the messages
};

struct TrainingResult {
  int ranks = 0;
  bool sparse = false;
  bool compressed = false;  ///< gradients travel as a compressor's bytes, values or factors
  std::int64_t parameters = 0;
  std::int64_t steps = 0;
  StepSplit split;  ///< summed over all steps, mean of the ranks
  std::vector<CurvePoint> curve;
  bool stopped = false;  ///< by a signal, before its end: started again with the same folder, it goes on
};

/// Told about the training as it goes, on every rank.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(std::int64_t step, std::int64_t steps, const CurvePoint& latest) = 0;
};

class Trainer {
 public:
  /// Collective. The data sets must outlive the trainer.
  Trainer(MPI_Comm comm, const Dataset& train, const Dataset& test, Options options);
  /// Collective. Trains for all epochs, from the newest checkpoint on if there is one.
  TrainingResult run(Observer& observer);

 private:
  /// Returns the steps that are done.
  std::int64_t resume(std::vector<CurvePoint>& curve);
  void step(std::int64_t number);
  void update_parameters(float rate, float momentum);
  /// LARS over the network's arrays. Collective.
  void make_layer_optimizer();
  [[nodiscard]] double learning_rate(std::int64_t step) const;
  CurvePoint measure(std::int64_t step);
  double test_accuracy();
  /// Mean of `value` over the ranks, on every rank.
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
  bool after_;    ///< the optimizer comes after the plan
  bool entries_;  ///< the plan delivers entries, not the whole
  std::vector<float> parameters_;
  std::vector<float> velocity_;                ///< the step with momentum: of this rank, or, after the plan, of all
  std::vector<float> update_;                  ///< what goes into the plan and comes out, where that is not the velocity itself
  std::optional<weir::LayerOptimizer> lars_;   ///< keeps a velocity of its own
  std::vector<float*> layer_weights_;          ///< in parameters_
  std::vector<const float*> layer_gradients_;  ///< in update_
  /// Sums on this rank over all steps, except `loss` and `losses`, which count from the last point of the curve. All are doubles.
  struct Tally {
    StepSplit split;
    double seconds = 0;
    double bytes_sent = 0;
    double loss = 0, losses = 0;
  } tally_;
  Resume resume_;
};

}  // namespace fashion_mnist
