
#include <cmath>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "model/choose.hpp"
#include "plan/plan_config.hpp"

namespace weir {

using compress::Carriage;
using compress::Compressor;

namespace {

std::string carriers_of(const Compressor& compressor) {
  std::string names;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (carries(row, compressor) && (row.host_memory || !compressor))
      names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

/// Returns the compressor for which the algorithm is made.
std::string_view default_compressor(const AllreduceRow& algorithm) {
  return algorithm.sparse() ? "top_k" : algorithm.packed() ? "block_quantise" : "none";
}

std::string_view why_no_feedback(const Compressor& compressor) {
  return compressor.row->why_no_feedback != nullptr ? compressor.row->why_no_feedback(compressor.parameters) : std::string_view();
}

std::string text_of(const Compressor& compressor) {
  if (!compressor) return "none";
  const std::string parameters = compressor.parameters.text();
  return std::string(compressor.row->name) + (parameters.empty() ? "" : ' ' + parameters);
}

}  // namespace

Compressor compressor_of(const AllreduceConfig& c) {
  const AllreduceRow& algorithm = find_allreduce(c.algorithm);
  require(c.compressor.find('|') == std::string::npos,
          "compressor is {}: among several only algorithm auto chooses, and algorithm is {}", c.compressor, c.algorithm);
  Compressor made =
      compress::make_compressor(c.compressor.empty() ? default_compressor(algorithm) : c.compressor, c.compressor_parameters);
  const std::string_view why = why_not_by(algorithm, made);
  require(carries(algorithm, made), "compressor is {}: algorithm {} cannot carry it{}{}; {}, or auto, can",
          made ? made.row->name : "none", c.algorithm, why.empty() ? "" : ", since ", why, carriers_of(made));
  return made;
}

Feedback feedback_of(const AllreduceConfig& c, const Compressor& compressor) {
  if (!compressor) return Feedback::none;
  if (c.error_feedback != Feedback::automatic) return c.error_feedback;
  return compressor.row->feedback && why_no_feedback(compressor).empty() ? Feedback::residual : Feedback::none;
}

FeedbackRules feedback_rules(const AllreduceConfig& c, const Compressor& compressor, int ranks) {
  FeedbackRules rules;
  if (!compressor) return rules;
  if (compressor.row->momentum != nullptr) rules.momentum = compressor.row->momentum(compressor.parameters);
  rules.gain = c.feedback_gain;
  rules.decay = feedback_of(c, compressor) == Feedback::residual ? c.feedback_decay : 1;
  rules.differences = feedback_of(c, compressor) == Feedback::ef21;
  rules.ranks = ranks;
  return rules;
}

namespace {

/// Checks that the compressor can have the configured error feedback, whatever the algorithm.
void check_feedback(const AllreduceConfig& c, const Compressor& compressor) {
  require(compressor || c.feedback_gain == 1,
          "feedback_gain is {}: it must be 1 where gradients may travel as they are, as algorithm {} has it", c.feedback_gain,
          c.algorithm);
  if (!compressor) return;
  const Feedback feedback = feedback_of(c, compressor);
  const std::string_view name = compressor.row->name, why_not = why_no_feedback(compressor);
  require(feedback == Feedback::none || why_not.empty(),
          "error_feedback is {}: compressor {} cannot have any, since {}; choose none", name_of(feedback), name, why_not);
  require(feedback == Feedback::residual || c.feedback_decay == 1,
          "feedback_decay is {}: compressor {} has no residual with error_feedback {}, and it must be 1", c.feedback_decay, name,
          name_of(c.error_feedback));
  if (feedback != Feedback::ef21) return;
  require(c.feedback_gain == 1, "feedback_gain is {}: with ef21 it must be 1", c.feedback_gain);
  require(compressor.row->momentum == nullptr,
          "error_feedback is ef21: compressor {} has a momentum of its own; choose residual or none", name);
}

/// Checks what candidates have in common. Each candidate is checked once it has been chosen.
void check_automatic(const AllreduceConfig& c) {
  const std::vector<Compressor> compressors = compress::make_compressors(c.compressor, c.compressor_parameters);
  for (const Compressor& compressor : compressors) {
    require(c.algorithm != "auto_sparse" || (compressor && compressor.row->carriage == Carriage::sparse),
            "compressor is {}: algorithm auto_sparse takes sparse ones, and {} is none; choose auto", c.compressor,
            compressor ? compressor.row->name : "none");
    check_feedback(c, compressor);
  }
  if (compressors.empty() && c.algorithm == "auto") check_feedback(c, {});
  require(
      c.memory == MemorySpace::host || c.trial_iterations == 0 || c.compressor.find('|') == std::string::npos,
      "trial_iterations is {}: in CUDA memory candidates keep each other's residuals, and must be of one compressor; compressor is "
      "{}",
      c.trial_iterations, c.compressor);
  require(c.error_feedback != Feedback::ef21 || c.trial_iterations == 0,
          "trial_iterations is {}: with error_feedback ef21 it must be 0, since candidates cannot take over what others delivered",
          c.trial_iterations);
}

}  // namespace

void check_compression(const AllreduceConfig& c) {
  const auto narrow = static_cast<float>(c.feedback_gain);
  require(std::isfinite(narrow) && narrow != 0, "feedback_gain is {}: as float32 it must be finite and not 0, for example 1",
          c.feedback_gain);
  require(c.seed >= 0, "seed is {}: it must not be negative", c.seed);
  if (is_automatic(c.algorithm)) {
    check_automatic(c);
    return;
  }
  const Compressor compressor = compressor_of(c);
  check_feedback(c, compressor);
  require(compressor || c.feedback_decay == 1, "feedback_decay is {}: algorithm {} keeps no residual, and it must be 1",
          c.feedback_decay, c.algorithm);
  if (!compressor) return;
  const std::string_view name = compressor.row->name;
  const bool sparse = compressor.row->carriage == Carriage::sparse;
  require(sparse || c.type != DataType::float64, "type is {}: compressor {} takes float32 only{}", name_of(c.type), name,
          c.memory == MemorySpace::cuda ? ", or float16 and bfloat16" : "");
  require(compressor.row->carriage != Carriage::linear || find_allreduce(c.algorithm).host_memory,
          "algorithm is {}: what compressor {} makes is summed in host memory; there, dense_ring does the same", c.algorithm, name);
  require(sparse || feedback_of(c, compressor) != Feedback::ef21 || c.type == DataType::float32,
          "error_feedback is ef21: the sum of all updates needs float32, and type is {}; choose residual, or a sparse compressor",
          name_of(c.type));
}

std::string compression_text(const AllreduceConfig& c) {
  if (!is_automatic(c.algorithm)) return text_of(compressor_of(c));
  std::string text;
  for (const Compressor& compressor : compress::make_compressors(c.compressor, c.compressor_parameters)) {
    if (!text.empty()) text += '|';
    text += text_of(compressor);
  }
  return text;
}

std::string travel_text(const AllreduceConfig& c) {
  const Compressor compressor = compressor_of(c);
  if (!compressor) return c.algorithm;
  return fmt::format("{} of {}, error_feedback {}", c.algorithm, compression_text(c), name_of(feedback_of(c, compressor)));
}

}  // namespace weir
