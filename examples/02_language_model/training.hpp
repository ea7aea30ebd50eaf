// training.hpp: data-parallel training of a word-level language model. The scheme says how gradients of both tables and of the
// recurrent layer's two blocks travel.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <vector>
#include <weir/schedule.hpp>
#include <weir/weir.hpp>

#include "batches.hpp"
#include "corpus.hpp"
#include "dense_block.hpp"
#include "evaluation.hpp"
#include "gru.hpp"
#include "resume.hpp"
#include "sampled_softmax.hpp"
#include "scheme.hpp"
#include "sparse_layer.hpp"
#include "stall_clock.hpp"

namespace language_model {

struct Options {
  std::int64_t vocabulary = 20000;
  int embedding = 128;  ///< D, elements of a word's vector
  int hidden = 128;     ///< H, elements of the recurrent state
  BatchShape batch;
  double table_learning_rate = 0.1;  ///< Adagrad
  double dense_learning_rate = 0.004;
  double dense_momentum = -1;  ///< of SGD; negative for Adam
  Travel dense;                ///< for the recurrent layer's gradients
  std::int64_t steps = 1500;
  double seconds = 90;  ///< training ends at the first evaluation after this time; 0 for no limit
  std::int64_t evaluate_every = 75;
  std::int64_t evaluation_words = 4096;
  std::uint64_t seed = 1;
  CheckpointOptions checkpoint;

  /// Returns the name of a run and of its files: the scheme, the algorithm of dense gradients if it is not the default, and their
  /// compressor if one is set.
  [[nodiscard]] std::string name(const Scheme& scheme) const;
};

/// The state of the training after some steps, the same on each rank.
struct CurvePoint {
  std::int64_t step = 0;
  double perplexity = 0;                ///< on held-out text
  double seconds = 0;                   ///< trained so far by the slowest rank, evaluation excluded
  double stall = 0;                     ///< part of `seconds` in which computation waits for communication; maximum of the ranks
  std::array<double, 3> stall_parts{};  ///< waits for embedding table, output table, dense blocks; means of the ranks
  double progress = 0;          ///< part of `seconds` in calls that make progress between matrix products; mean of the ranks
  double table_bytes = 0;       ///< sent so far; mean of the ranks
  double most_table_bytes = 0;  ///< sent so far; maximum of the ranks
  double dense_bytes = 0;
  double dense_compression = 0;  ///< seconds of selection, encoding and decoding of dense gradients; mean of the ranks
};

struct TrainingResult {
  int ranks = 0;
  std::array<TableTally, 2> tables;  ///< of the embedding and the output table; sums over steps on this rank
  std::vector<CurvePoint> curve;
  bool stopped = false;  ///< by a signal, before the end; started again with the same folder, the training continues
};

/// Throws std::runtime_error if the text is too short for all ranks of `comm` to train and evaluate on. Not collective.
void check_length(MPI_Comm comm, const Corpus& corpus, const Options& options);

/// Receives the progress of the training, on every rank.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(std::int64_t step, const CurvePoint& latest, bool last) = 0;
};

class Trainer {
 public:
  /// Collective. `comm` and `corpus` must outlive the trainer.
  Trainer(MPI_Comm mpi, const weir::Communicator& comm, const Corpus& corpus, const Scheme& scheme, const Options& options);
  /// Collective. Trains until all steps are done or the time is over. Starts from the newest checkpoint if there is one.
  TrainingResult run(Observer& observer);

 private:
  void resume(std::vector<CurvePoint>& curve);
  void step();
  void drain();
  CurvePoint measure(std::int64_t step);
  [[nodiscard]] DenseBlockConfig block_config(const char* name, std::size_t parameters, std::uint64_t seed) const;

  MPI_Comm mpi_;
  int ranks_;
  Scheme scheme_;
  Options options_;
  GruShape shape_;
  StallClock embedding_clock_, output_clock_, dense_clock_;
  NegativeSampler negatives_;
  BatchReader reader_;
  weir::StepSchedule schedule_;
  SparseLayer embedding_, output_;
  DenseBlock input_block_, recurrent_block_;
  Gru gru_;
  SampledSoftmax softmax_;
  Evaluator evaluator_;
  std::vector<float> vector_gradients_;
  Batch batch_, next_batch_;
  std::int64_t steps_ = 0;
  double seconds_ = 0;
  Resume resume_;
};

}  // namespace language_model
