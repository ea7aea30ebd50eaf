#include "training.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace language_model {
namespace {

weir::EmbeddingConfig table_config(const Scheme& scheme, const Options& options, const char* name) {
  weir::EmbeddingConfig config;
  config.rows = options.vocabulary;
  config.exchange = scheme.exchange;
  config.optimizer = weir::Optimizer::adagrad;
  config.learning_rate = options.table_learning_rate;
  config.seed = options.seed;
  config.name = name;
  if (!scheme.scheduled) config.priority = config.delayed_priority = 0;
  return config;
}

weir::EmbeddingConfig embedding_config(const Scheme& scheme, const Options& options) {
  weir::EmbeddingConfig config = table_config(scheme, options, "embedding");
  config.width = options.embedding;
  config.largest_batch = options.batch.tokens();
  return config;
}

weir::EmbeddingConfig output_config(const Scheme& scheme, const Options& options) {
  weir::EmbeddingConfig config = table_config(scheme, options, "output");
  config.width = options.hidden + 1;
  config.largest_batch = options.batch.tokens() + options.batch.negatives;
  // The forward pass needs these rows last. The dense blocks have positive priorities, so they go first.
  config.priority = 0;
  return config;
}

GruShape gru_shape(const Options& options) {
  return {.inputs = options.embedding,
          .hidden = options.hidden,
          .sequences = static_cast<int>(options.batch.sequences),
          .length = static_cast<int>(options.batch.length)};
}

/// Returns the curve as text from which curve_of() reads the same numbers.
std::string text_of(const std::vector<CurvePoint>& curve) {
  nlohmann::json json = nlohmann::json::array();
  for (const CurvePoint& p : curve)
    json.push_back({p.step, p.perplexity, p.seconds, p.stall, p.stall_parts, p.progress, p.table_bytes, p.most_table_bytes,
                    p.dense_bytes, p.dense_compression});
  return json.dump();
}
std::vector<CurvePoint> curve_of(const std::string& text) {
  std::vector<CurvePoint> curve;
  for (const nlohmann::json& p : nlohmann::json::parse(text))
    curve.push_back({.step = p[0],
                     .perplexity = p[1],
                     .seconds = p[2],
                     .stall = p[3],
                     .stall_parts = p[4],
                     .progress = p[5],
                     .table_bytes = p[6],
                     .most_table_bytes = p[7],
                     .dense_bytes = p[8],
                     .dense_compression = p[9]});
  return curve;
}

}  // namespace

std::string Options::name(const Scheme& scheme) const {
  std::string name(scheme.name);
  if (dense.algorithm != Travel().algorithm) name += "+" + dense.algorithm;
  return dense.compressor.empty() ? name : name + "+" + dense.compressor;
}

void check_length(MPI_Comm comm, const Corpus& corpus, const Options& options) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  // Both constructors refuse a text that is too short.
  const NegativeSampler negatives(corpus.counts, options.batch.negatives, options.seed);
  static_cast<void>(BatchReader(corpus, negatives, options.batch, 0, ranks));
  static_cast<void>(Evaluator(comm, corpus, options.embedding, options.hidden, options.evaluation_words));
}

Trainer::Trainer(MPI_Comm mpi, const weir::Communicator& comm, const Corpus& corpus, const Scheme& scheme, const Options& options)
    : mpi_(mpi),
      ranks_(comm.size()),
      scheme_(scheme),
      options_(options),
      shape_(gru_shape(options)),
      negatives_(corpus.counts, options.batch.negatives, options.seed),
      reader_(corpus, negatives_, options.batch, comm.rank(), comm.size()),
      schedule_({"input", "recurrent"}),
      embedding_(comm, embedding_config(scheme, options), embedding_clock_),
      output_(comm, output_config(scheme, options), output_clock_),
      input_block_(comm, schedule_, block_config("input", shape_.input_block(), options.seed), dense_clock_),
      recurrent_block_(comm, schedule_, block_config("recurrent", shape_.recurrent_block(), options.seed + 1), dense_clock_),
      gru_(shape_),
      softmax_(shape_.tokens(), static_cast<int>(options.batch.negatives), options.hidden),
      evaluator_(mpi, corpus, options.embedding, options.hidden, options.evaluation_words),
      vector_gradients_(static_cast<std::size_t>(shape_.tokens()) * static_cast<std::size_t>(shape_.inputs)),
      resume_(comm, options.checkpoint, options.name(scheme)) {
  if (weir::Checkpoint* const checkpoint = resume_.checkpoint()) {
    for (SparseLayer* layer : {&embedding_, &output_}) layer->add_to(*checkpoint);
    for (DenseBlock* block : {&input_block_, &recurrent_block_}) block->add_to(*checkpoint);
    checkpoint->add("blocks", schedule_);
    checkpoint->add_local("state", gru_.last_state());
    checkpoint->add_local("seconds", std::span(&seconds_, 1));
    for (auto [name, clock] :
         {std::pair("embedding.clock", &embedding_clock_), {"output.clock", &output_clock_}, {"dense.clock", &dense_clock_}})
      checkpoint->add_local(name, std::span(&clock->stall, sizeof(StallClock) / sizeof(double)));
  }
}

DenseBlockConfig Trainer::block_config(const char* name, std::size_t parameters, std::uint64_t seed) const {
  return {.name = name,
          .parameters = parameters,
          .initial_range = 1 / std::sqrt(static_cast<double>(options_.hidden)),
          .learning_rate = options_.dense_learning_rate,
          .momentum = options_.dense_momentum,
          .travel = options_.dense,
          .prioritised = scheme_.scheduled,
          .seed = seed};
}

TrainingResult Trainer::run(Observer& observer) {
  TrainingResult result;
  result.ranks = ranks_;
  resume(result.curve);
  reader_.read(steps_, next_batch_);
  if (result.curve.empty()) result.curve.push_back(measure(0));
  for (bool last = steps_ >= options_.steps; !last && !result.stopped;) {
    step();
    const bool evaluate = steps_ % options_.evaluate_every == 0 || steps_ == options_.steps;
    if (evaluate) result.curve.push_back(measure(steps_));
    last = steps_ == options_.steps || (evaluate && options_.seconds > 0 && result.curve.back().seconds >= options_.seconds);
    observer.on_step(steps_, result.curve.back(), last);
    result.stopped = !resume_.go_on(steps_, last, text_of(result.curve), [this] {
      drain();
      embedding_.settle();
      output_.settle();
    });
  }
  result.tables = {embedding_.tally(), output_.tally()};
  return result;
}

void Trainer::resume(std::vector<CurvePoint>& curve) {
  std::string text;
  steps_ = resume_.restore(text);
  if (steps_ > 0) curve = curve_of(text);
}

void Trainer::step() {
  const Stopwatch watch(seconds_);
  const Pause pause = [this] { output_.make_progress(); };
  std::swap(batch_, next_batch_);
  reader_.read(++steps_, next_batch_);

  // 1. forward: each part waits only for what it needs
  embedding_.look_up(batch_.inputs);
  output_.look_up(batch_.outputs);
  const std::span<const float> vectors = embedding_.rows();
  if (scheme_.scheduled) {
    embedding_.prefetch(next_batch_.inputs);
    output_.prefetch(next_batch_.outputs);
  }
  input_block_.finish();
  gru_.project(input_block_.parameters(), vectors);
  pause();
  recurrent_block_.finish();
  gru_.forward(recurrent_block_.parameters(), pause);
  softmax_.differentiate(gru_.outputs(), batch_.outputs, output_.rows(), negatives_.log_expected(), pause);

  // 2. backward: each gradient is sent at once; those that the next forward pass needs first are computed first
  output_.update(softmax_.row_gradients());
  gru_.backward(recurrent_block_.parameters(), softmax_.state_gradients(), pause);
  gru_.vector_gradients(input_block_.parameters(), vector_gradients_);
  embedding_.update(vector_gradients_);
  gru_.input_gradient(vectors, input_block_.gradient());
  input_block_.start();
  gru_.recurrent_gradient(recurrent_block_.gradient());
  recurrent_block_.start();

  if (!scheme_.scheduled) drain();
}

void Trainer::drain() {
  output_.drain();
  embedding_.drain();
  input_block_.finish();
  recurrent_block_.finish();
}

CurvePoint Trainer::measure(std::int64_t step) {
  {
    const Stopwatch watch(seconds_);
    drain();
  }
  const std::vector<float> embedding = embedding_.values(), output = output_.values();
  const double table_bytes = embedding_.tally().bytes_sent + output_.tally().bytes_sent;
  std::array<double, 3> most = {seconds_, embedding_clock_.stall + output_clock_.stall + dense_clock_.stall, table_bytes};
  std::array<double, 7> sums = {embedding_clock_.stall,
                                output_clock_.stall,
                                dense_clock_.stall,
                                output_clock_.progress,
                                table_bytes,
                                input_block_.bytes_sent() + recurrent_block_.bytes_sent(),
                                input_block_.compression_seconds() + recurrent_block_.compression_seconds()};
  MPI_Allreduce(MPI_IN_PLACE, most.data(), static_cast<int>(most.size()), MPI_DOUBLE, MPI_MAX, mpi_);
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, mpi_);
  // All ranks leave the last sum together, so that none starts the next step earlier than the others.
  const double perplexity = evaluator_.perplexity({.embedding = embedding,
                                                   .input_block = input_block_.parameters(),
                                                   .recurrent_block = recurrent_block_.parameters(),
                                                   .output = output});
  return {.step = step,
          .perplexity = perplexity,
          .seconds = most[0],
          .stall = most[1],
          .stall_parts = {sums[0] / ranks_, sums[1] / ranks_, sums[2] / ranks_},
          .progress = sums[3] / ranks_,
          .table_bytes = sums[4] / ranks_,
          .most_table_bytes = most[2],
          .dense_bytes = sums[5] / ranks_,
          .dense_compression = sums[6] / ranks_};
}

}  // namespace language_model
