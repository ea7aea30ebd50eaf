#include "fusion/fusion_config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/nearest.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/input_error.hpp"
#include "contribution/threshold.hpp"
#include "fusion/scheme.hpp"
#include "plan/plan_config.hpp"

namespace weir::fusion {
namespace {

constexpr std::size_t longest_name = 128;
constexpr std::int64_t most_sparse = std::numeric_limits<std::uint32_t>::max(), most_dense = std::int64_t{1} << 48;

void check_tensor(const FusedTensor& t, std::size_t place) {
  require(!t.name.empty(), "tensor {}: its name is empty: give each a name of its own", place);
  const bool plain = std::none_of(t.name.begin(), t.name.end(), [](unsigned char c) { return c == '/' || c < ' '; });
  require(t.name.size() <= longest_name && plain && t.name != "." && t.name != "..",
          "tensor {}: its name is '{}': it must have at most {} characters, none of them '/' or a control character", place,
          t.name.substr(0, longest_name), longest_name);
  require(t.count >= 0, "tensor '{}': count is {}: it must be at least 0", t.name, t.count);
  require(t.count <= (t.dense ? most_dense : most_sparse), "tensor '{}': count is {}: it must be from 0 to {}; split the tensor",
          t.name, t.count, t.dense ? "2^48" : "2^32 - 1, or 2^48 where it is dense");
  require(t.density >= 0 && t.density <= 1, "tensor '{}': density is {}: it must be above 0 and at most 1, or 0 for that of all",
          t.name, t.density);
  require(t.k >= -1 && t.k <= t.count, "tensor '{}': k is {}: it must be between 0 and the count {}, or -1 to follow from density",
          t.name, t.k, t.count);
}

/// One rank's tensor as plain bytes, by which ranks compare it.
struct TensorCard {
  std::array<char, longest_name + 8> name{};
  std::int64_t count = 0, k = 0;
  double density = 0;
  std::int32_t dense = 0, optional = 0;

  explicit TensorCard(const FusedTensor& t) : count(t.count), k(t.k), density(t.density), dense(t.dense), optional(t.optional) {
    t.name.copy(name.data(), longest_name);
  }
  [[nodiscard]] std::uint64_t fingerprint() const {
    static_assert(sizeof(TensorCard) == longest_name + 40, "there is padding, which differs between ranks");
    Fingerprint all;
    all.add({reinterpret_cast<const char*>(this), sizeof *this});
    return all.value();
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("'{}' of {} elements (k {}, density {}{}{})", name.data(), count, k, density, dense != 0 ? ", dense" : "",
                       optional != 0 ? ", optional" : "");
  }
};

void check_parameters(const FusionConfig& c) {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (is_automatic(c.algorithm) ? !row.sparse() : row.name != c.algorithm) continue;
    ExchangeSpec spec;
    spec.at_most_k = threshold_of(c, row.threshold).at_most_k();
    spec.wire_values = c.wire_values;
    spec.parameters =
        is_automatic(c.algorithm) ? parameters_if_chosen(row, c.algorithm_parameters) : parameters_of(row, c.algorithm_parameters);
    row.check_parameters(spec);
  }
}

}  // namespace

void check_config(const FusionConfig& c, std::span<const FusedTensor> tensors) {
  check_fields(c);
  require(c.type <= DataType::float64, "type is {}: it must be float32 or float64", name_of(c.type));
  require(c.density > 0 && c.density <= 1, "density is {}: it must be above 0 and at most 1, for example 0.01", c.density);
  require(c.error_feedback != Feedback::ef21, "error_feedback is ef21: it must be residual, none or automatic");
  require(c.wire_values == WireValues::native || c.type != DataType::float64,
          "wire_values is {}: it needs float32, and type is {}; choose native", name_of(c.wire_values), name_of(c.type));
  require(is_automatic(c.algorithm) || find_allreduce(c.algorithm).sparse(),
          "algorithm is {}: it must be sparse, or auto; mark tensors dense to send them whole", c.algorithm);
  check_parameters(c);
  require(tensors.size() <= most_tensors, "there are {} tensors: at most {} can be fused", tensors.size(), most_tensors);
  std::unordered_set<std::string_view> names;
  double sparse = 0, all = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_tensor(tensors[i], i);
    require(names.insert(tensors[i].name).second, "tensor {}: its name, '{}', is that of an earlier one: give each its own", i,
            tensors[i].name);
    all += static_cast<double>(tensors[i].count);
    if (!tensors[i].dense) sparse += static_cast<double>(tensors[i].count);
  }
  require(all < 0x1p58, "the tensors have {} elements together: at most 2^58 can be fused", all);
  require(!find_scheme(c.scheme).fills_as_they_come || sparse <= static_cast<double>(most_sparse),
          "scheme is {}: the tensors have {} elements together, and it takes 2^32 - 1; choose ahead_inter", name_of(c.scheme),
          sparse);
}

detail::Lease agree_on_config(detail::CommunicatorState& comm, const FusionConfig& config, std::span<const FusedTensor> tensors) {
  ConfigCard card;
  card.outcome = detail::outcome_of([&] {
    check_config(config, tensors);
    card.set_texts({algorithm_text(config.algorithm, config.algorithm_parameters), fmt::format("{}", tensors.size()),
                    threshold_of(config, {}).text()});
    set_fields(card, config);
  });
  detail::Lease lease =
      open_agreed(comm, card, {"fused", card_fields<FusionConfig>(), {"algorithm", "number of tensors", "threshold"}}, config.name);
  using Prints = std::array<std::uint64_t, 128>;
  for (std::size_t first = 0; first < tensors.size(); first += Prints{}.size()) {
    Prints mine{};
    const std::size_t count = std::min(mine.size(), tensors.size() - first);
    for (std::size_t i = 0; i < count; ++i) mine[i] = TensorCard(tensors[first + i]).fingerprint();
    const std::span<const Prints> ranks = comm.share("comparing tensors", mine);
    std::size_t differs = count, rank = 0;
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      const std::size_t at =
          static_cast<std::size_t>(std::mismatch(ranks[r].begin(), ranks[r].end(), ranks[0].begin()).first - ranks[r].begin());
      if (at >= differs) continue;
      differs = at;
      rank = r;
    }
    if (differs == count) continue;
    const std::span<const TensorCard> cards = comm.share("comparing a tensor", TensorCard(tensors[first + differs]));
    fail_alike(WEIR_ERR_MISMATCH,
               "fused '{}': ranks disagree about a tensor: rank 0 has {}, rank {} has {} in its place, {}: describe "
               "the same tensors in the same order on every rank",
               config.name, cards[0].text(), rank, cards[rank].text(), first + differs);
  }
  return lease;
}

std::int64_t k_of(const FusionConfig& config, const FusedTensor& tensor) {
  if (tensor.dense || tensor.count == 0) return 0;
  if (tensor.k >= 0) return tensor.k;
  const double density = tensor.density > 0 ? tensor.density : config.density;
  return std::max<std::int64_t>(1, std::llround(density * static_cast<double>(tensor.count)));
}

int find_tensor(const FusionConfig& config, std::span<const FusedTensor> tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const FusedTensor& t) { return t.name == name; });
  if (found != tensors.end()) return static_cast<int>(found - tensors.begin());
  require(!tensors.empty(), "fused '{}': there is no tensor '{}': it was made without any", config.name, name);
  const auto closest = std::min_element(tensors.begin(), tensors.end(), [&](const FusedTensor& a, const FusedTensor& b) {
    return edit_distance(a.name, name) < edit_distance(b.name, name);
  });
  const bool close = edit_distance(closest->name, name) <= name.size() / 2;
  fail(WEIR_ERR_ARGUMENT, "fused '{}': there is no tensor '{}' among its {}: {} is '{}'", config.name, name, tensors.size(),
       close ? "the closest" : "the first", close ? closest->name : tensors.front().name);
}

std::string text_of(std::span<const FusedTensor> tensors) {
  std::string text;
  for (const FusedTensor& t : tensors)
    text += fmt::format("{}: count {}, k {}, density {}, dense {}, optional {}\n", t.name, t.count, t.k, t.density, t.dense ? 1 : 0,
                        t.optional ? 1 : 0);
  return text;
}

std::vector<FusedTensor> tensors_of(std::string_view text) {
  std::vector<FusedTensor> tensors;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.rfind(": count ");
    require(colon != std::string::npos, "'{}' describes no tensor", line);
    FusedTensor t{.name = line.substr(0, colon)};
    std::string numbers = line.substr(colon + 1), word;
    std::replace(numbers.begin(), numbers.end(), ',', ' ');
    std::istringstream words(numbers);
    words >> word >> t.count >> word >> t.k >> word >> t.density >> word >> t.dense >> word >> t.optional;
    require(!words.fail(), "'{}' describes no tensor", line);
    tensors.push_back(std::move(t));
  }
  return tensors;
}

namespace {

// The detail of a report holds the tensor in its upper bits and the count below.
constexpr int tensor_bits = 20, count_bits = ErrorReport::detail_bits - tensor_bits;
constexpr std::uint64_t most_tensor = (1u << tensor_bits) - 1, most_count = (1u << count_bits) - 1;

}  // namespace

ErrorReport report_of(Wrong kind, int rank, std::int64_t tensor, std::int64_t count) {
  return {kind, rank,
          std::min(static_cast<std::uint64_t>(tensor), most_tensor) << count_bits |
              std::min(static_cast<std::uint64_t>(count), most_count)};
}

namespace {

/// The texts of errors of a call for a tensor, which stands before them.
struct WrongText {
  Wrong kind;
  std::string_view text;
};
constexpr WrongText wrong_texts[] = {
    {Wrong::non_finite,
     "the gradient of rank {rank} holds NaN or infinity; gradients and residuals of {refused} are as before. Set non_finite to "
     "skip "
     "or propagate to accept it"},
    {Wrong::null_pointer, "rank {rank} gave a null gradient; give {count} elements of {type}{binding}"},
    {Wrong::misaligned, "the gradient of rank {rank} is not aligned to its type {type}"},
    {Wrong::device_memory, "the gradient of rank {rank} is in GPU memory; gradients must be in host memory"},
    {Wrong::wrong_type, "rank {rank} gave a gradient of another type; it takes {type}"},
    {Wrong::wrong_count, "rank {rank} gave a gradient of {given} elements; it was described with {count}"},
    {Wrong::in_use,
     "the gradient of rank {rank} overlaps that of another run in flight, which will write its update there: wait for that run "
     "first, or give each an array of its own"},
    {Wrong::shared,
     "rank {rank} handed in memory of tensor '{other}' for it: every tensor needs memory of its own; hand in tied weights once"},
    {Wrong::not_optional, "rank {rank} skipped it: describe it as optional where ranks may have no gradient for it"},
    {Wrong::missing,
     "rank {rank} did not hand it in before its first wait: call ready() for every tensor before that, or describe it as optional"},
    {Wrong::twice,
     "it was ready twice on rank {rank} in one iteration: hand in, or skip, each tensor once, and call wait_all() before the next "
     "iteration"},
    {Wrong::late, "it was ready on rank {rank} after that rank had begun to wait: wait_all() ends an iteration"}};

}  // namespace

Error error_of(ErrorReport report, const FusionConfig& config, std::span<const FusedTensor> tensors) {
  const int rank = report.rank();
  const std::uint64_t number = report.detail() >> count_bits, count = report.detail() & most_count;
  const Wrong kind = report.kind<Wrong>();
  const std::string head = fmt::format("fused '{}'", config.name);
  if (kind == Wrong::unknown && tensors.empty())
    return {WEIR_ERR_ARGUMENT, fmt::format("{}: rank {} named a tensor, and it was made without any", head, rank)};
  if (kind == Wrong::unknown)
    return {WEIR_ERR_ARGUMENT,
            fmt::format("{}: rank {} named a tensor that does not exist{}: tensors are numbered 0 to {} (in Fortran 1 to {})", head,
                        rank, number < most_tensor ? fmt::format(", number {}", number) : "",
                        static_cast<std::int64_t>(tensors.size()) - 1, tensors.size())};
  if (kind == Wrong::nothing)
    return {WEIR_ERR_ARGUMENT, fmt::format("{}: rank {} waited, and has handed in no gradient since its last iteration ended: call "
                                           "ready() for every tensor before the first wait",
                                           head, rank)};
  if (kind == Wrong::destroyed)
    return {WEIR_ERR_STATE, fmt::format("{}: rank {} destroyed it within an iteration: call wait_all() first", head, rank)};
  const auto found =
      std::find_if(std::begin(wrong_texts), std::end(wrong_texts), [&](const auto& row) { return row.kind == kind; });
  if (found == std::end(wrong_texts)) return {WEIR_ERR_INTERNAL, fmt::format("{}: unknown error {:#x}", head, report.word())};
  const FusedTensor& tensor = tensors[number];
  const bool whole_model = find_scheme(config.scheme).fills_as_they_come;
  const std::string what = fmt::format(
      fmt::runtime(found->text), fmt::arg("rank", rank), fmt::arg("count", tensor.count), fmt::arg("type", name_of(config.type)),
      fmt::arg("given", fmt::format("{}{}", count == most_count ? "at least " : "", count)),
      fmt::arg("binding", refused_by_binding), fmt::arg("other", kind == Wrong::shared ? tensors[count].name : ""),
      fmt::arg("refused", whole_model ? "all sparse tensors" : "its buffer"));
  return {kind == Wrong::non_finite ? WEIR_ERR_NON_FINITE : WEIR_ERR_ARGUMENT,
          fmt::format("{}, tensor '{}': {}", head, tensor.name, what)};
}

}  // namespace weir::fusion
