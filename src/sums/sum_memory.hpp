// sum_memory.hpp: the memory of runs, which grows on all ranks or on none.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "communicator/agreed_outcome.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {

/// Returns the outcome of an attempt. If memory ran out, its text begins with `owner`, as the texts of wrong input do.
template <class Attempt>
[[nodiscard]] detail::Outcome named_outcome(std::string_view owner, Attempt&& attempt) noexcept {
  const detail::Outcome plain = detail::outcome_of(attempt);
  if (plain.status != WEIR_ERR_MEMORY) return plain;
  detail::Outcome named;
  named.set_formatted(WEIR_ERR_MEMORY, "{}: {}", owner, plain.text.data());
  return named;
}

template <class T>
class GrowingMemory final : public SumGrowth {
 public:
  /// `ranks` sum together. `owner` stands at the beginning of errors.
  GrowingMemory(int ranks, std::string owner) : memory(ranks), owner_(std::move(owner)) {}

  /// The ranks of the channel grow together from now on.
  void use(const Channel& channel) { channel_ = channel; }

  [[nodiscard]] bool suffices(const SumNeed& need) const {
    return std::equal(need.entries.begin(), need.entries.end(), have_.entries.begin(), std::less_equal<>()) &&
           std::equal(need.bytes.begin(), need.bytes.end(), have_.bytes.begin(), std::less_equal<>());
  }
  /// Allocates what is missing on this rank alone, before the first run.
  void reserve(const SumNeed& need) { take_over(growth_for(need)); }
  task<void> grow(SumNeed need) override {
    if (suffices(need)) co_return;  // on all ranks: they have the same
    Growth growth;
    const detail::Outcome outcome = named_outcome(owner_, [&] { growth = growth_for(need); });
    co_await detail::agree_on_outcome(*channel_, outcome, agreement_);
    take_over(std::move(growth));
  }
  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const auto& list : memory.lists) bytes += list.bytes();
    for (const auto& messages : memory.messages) bytes += messages.bytes();
    return bytes;
  }

  SumMemory<T> memory;

 private:
  /// What a growth allocates.
  struct Growth {
    SumNeed have;
    std::array<EntryMemory<T>, 3> lists;
    std::array<Buffer<std::byte>, 2> messages;
  };
  /// Allocates what is missing, beside what there is. What grows, grows by half at least.
  [[nodiscard]] Growth growth_for(const SumNeed& need) const {
    Growth growth{have_, {}, {}};
    const auto grown = [](std::int64_t needed, std::int64_t had) { return needed <= had ? had : std::max(needed, had + had / 2); };
    for (std::size_t i = 0; i < need.entries.size(); ++i) {
      growth.have.entries[i] = grown(need.entries[i], have_.entries[i]);
      if (need.entries[i] > have_.entries[i]) growth.lists[i] = EntryMemory<T>(growth.have.entries[i]);
    }
    for (std::size_t i = 0; i < need.bytes.size(); ++i) {
      growth.have.bytes[i] = grown(need.bytes[i], have_.bytes[i]);
      if (need.bytes[i] > have_.bytes[i]) growth.messages[i] = Buffer<std::byte>(growth.have.bytes[i]);
    }
    return growth;
  }
  void take_over(Growth&& growth) noexcept {
    for (std::size_t i = 0; i < growth.lists.size(); ++i) {
      if (growth.have.entries[i] > have_.entries[i]) memory.lists[i] = std::move(growth.lists[i]);
    }
    for (std::size_t i = 0; i < growth.messages.size(); ++i) {
      if (growth.have.bytes[i] > have_.bytes[i]) memory.messages[i] = std::move(growth.messages[i]);
    }
    have_ = growth.have;
  }

  std::string owner_;
  std::optional<Channel> channel_;
  SumNeed have_;
  detail::AgreementWords agreement_;
};

}  // namespace weir::sums
