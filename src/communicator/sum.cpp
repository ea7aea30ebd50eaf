// Sums over all values of all ranks that do not depend on how the values are divided among ranks.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "communicator/communicator.hpp"
#include "communicator/input_error.hpp"
#include "kernels/kernels.hpp"
#include "kernels/sum_of_few.hpp"

namespace weir {
namespace {

constexpr std::size_t fields_of_first = 8, fields_of_other = 16;

/// What a rank gives to some fields.
template <std::size_t most_fields>
struct Part {
  std::int64_t each;  ///< values of a field
  union {
    std::array<double, most_fields> value;              ///< if there is at most one, or 0
    std::array<ReproducibleTotal, most_fields> totals;  ///< if there are more
  };
};
struct FirstCard {
  std::int64_t fields;  ///< -1: the rank has failed
  Part<fields_of_first> part;
  detail::Outcome outcome;  ///< set if the rank has failed
};
struct OtherCard {
  Part<fields_of_other> part;
};

template <class Card>
using Cards = detail::CommunicatorState::Cards<Card>;

class Sum {
 public:
  Sum(const void* values, std::int64_t count, DataType type, double* sums, std::int64_t fields)
      : values_(values), count_(count), type_(type), sums_(sums), fields_(fields) {}

  void run(detail::CommunicatorState& comm) {
    const auto first = comm.share_in_place<FirstCard>("sum", [&](FirstCard& card) {
      const detail::Outcome outcome = detail::outcome_of([&] { check(); });
      card.fields = outcome.failed() ? -1 : fields_;
      if (outcome.failed())
        card.outcome = outcome;
      else
        add_fields(0, card.part);
    });
    agree(comm, first);
    merge(0, first);
    for (auto begin = static_cast<std::int64_t>(fields_of_first); begin < fields_; begin += fields_of_other)
      merge(begin, comm.share_in_place<OtherCard>("sum", [&](OtherCard& card) { add_fields(begin, card.part); }));
  }

 private:
  void check() const {
    require(type_ == DataType::float32 || type_ == DataType::float64, "the values have type {}: they must be float32 or float64",
            static_cast<int>(type_));
    require(count_ >= 0 && fields_ >= 0, "there are {} values for {} sums: neither number may be negative{}", count_, fields_,
            refused_by_binding);
    check_memory("values", values_, count_, type_ == DataType::float32 ? sizeof(float) : sizeof(double));
    check_memory("sums", sums_, fields_, sizeof(double));
    require(fields_ > 0 || count_ == 0, "there are {} values and no sum to add them to", count_);
    require(fields_ == 0 || count_ % fields_ == 0, "there are {} values for {} sums: each sum takes equally many of them", count_,
            fields_);
  }

  static void check_memory(const char* what, const void* memory, std::int64_t count, std::size_t alignment) {
    if (count == 0) return;
    require(memory != nullptr, "the {} are a null pointer", what);
    require(reinterpret_cast<std::uintptr_t>(memory) % alignment == 0, "the address of the {} is not a multiple of {}", what,
            alignment);
    require(HostPointers().error_of(memory, nullptr) == InputError::none,
            "the {} are in GPU memory: copy them to host memory first", what);
  }

  void agree(const detail::CommunicatorState& comm, const Cards<FirstCard>& cards) const {
    bool failed = false;
    for (int rank = 0; rank < cards.ranks(); ++rank) failed = failed || cards.of(rank).fields < 0;
    if (failed) {
      std::vector<detail::Outcome> outcomes;
      for (int rank = 0; rank < cards.ranks(); ++rank)
        outcomes.push_back(cards.of(rank).fields < 0 ? cards.of(rank).outcome : detail::Outcome());
      comm.throw_first("sum", "", outcomes);
    }
    for (int rank = 1; rank < cards.ranks(); ++rank) {
      if (cards.of(rank).fields != cards.of(0).fields)
        fail_alike(WEIR_ERR_ARGUMENT, "sum: rank 0 asks for {} sums, and rank {} for {}: all ranks must ask for the same number",
                   cards.of(0).fields, rank, cards.of(rank).fields);
    }
    std::int64_t values = 0;
    for (int rank = 0; rank < cards.ranks(); ++rank) values += fields_ * cards.of(rank).part.each;
    if (values > ReproducibleTotal::most_values)
      fail_alike(WEIR_ERR_ARGUMENT, "sum: all ranks together give {} values: at most {} can be added", values,
                 ReproducibleTotal::most_values);
  }

  /// Writes what this rank gives to the fields from `begin` on.
  template <std::size_t most_fields>
  void add_fields(std::int64_t begin, Part<most_fields>& part) const {
    if (type_ == DataType::float32)
      add_values(static_cast<const float*>(values_), begin, part);
    else
      add_values(static_cast<const double*>(values_), begin, part);
  }
  template <class T, std::size_t most_fields>
  void add_values(const T* values, std::int64_t begin, Part<most_fields>& part) const {
    part.each = fields_ == 0 ? 0 : count_ / fields_;
    const std::int64_t end = std::min(fields_, begin + static_cast<std::int64_t>(most_fields));
    for (std::int64_t field = begin; field < end; ++field) {
      const auto at = static_cast<std::size_t>(field - begin);
      if (part.each <= 1) {
        part.value[at] = part.each == 0 ? 0 : static_cast<double>(values[field]);
      } else {
        part.totals[at] = {};
        kernels::host::add_to_total(values + field * part.each, part.each, part.totals[at]);
      }
    }
  }
  template <class Card>
  void merge(std::int64_t begin, const Cards<Card>& cards) const {
    const std::int64_t end = std::min(fields_, begin + std::ssize(cards.of(0).part.totals));
    for (std::int64_t field = begin; field < end; ++field) sums_[field] = sum_of(cards, static_cast<std::size_t>(field - begin));
  }
  template <class Card>
  static double sum_of(const Cards<Card>& cards, std::size_t at) {
    std::array<double, 64> few;
    ReproducibleTotal total;
    std::size_t count = 0;
    const auto add_few = [&] {
      kernels::host::add_to_total(few.data(), static_cast<std::int64_t>(count), total);
      count = 0;
    };
    bool all_few = true;
    for (int rank = 0; rank < cards.ranks(); ++rank) {
      const auto& part = cards.of(rank).part;
      if (part.each > 1) {
        total.merge(part.totals[at]);
        all_few = false;
        continue;
      }
      if (count == few.size()) {
        add_few();
        all_few = false;
      }
      few[count++] = part.value[at];
    }
    if (all_few) return kernels::sum_of_few(few.data(), static_cast<int>(count));
    add_few();
    return total.value();
  }

  const void* values_;
  std::int64_t count_;
  DataType type_;
  double* sums_;
  std::int64_t fields_;
};

}  // namespace

void Communicator::sum(std::span<const float> values, std::span<double> sums) const {
  sum_raw(values.data(), std::ssize(values), DataType::float32, sums.data(), std::ssize(sums));
}
void Communicator::sum(std::span<const double> values, std::span<double> sums) const {
  sum_raw(values.data(), std::ssize(values), DataType::float64, sums.data(), std::ssize(sums));
}
void Communicator::sum_raw(const void* values, std::int64_t count, DataType type, double* sums, std::int64_t fields) const {
  state_->guarded([&] { Sum(values, count, type, sums, fields).run(*state_); });
}

}  // namespace weir
