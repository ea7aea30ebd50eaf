#include "fusion/adaptation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace weir::fusion {
namespace {

std::uint64_t nanoseconds(double seconds) { return static_cast<std::uint64_t>(std::max(0.0, seconds) * 1e9); }
double seconds(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

constexpr double worth_it = 0.97;
constexpr std::uint64_t turned = std::numeric_limits<std::int64_t>::max();  // minima travel as maxima of their distance to this

}  // namespace

Adaptation::Adaptation(const SchemeRow& scheme, Line line, const LinearCost& prior, std::int64_t entry_bytes)
    : scheme_(scheme),
      line_(std::move(line)),
      prior_(prior),
      cost_(prior),
      entry_bytes_(entry_bytes),
      settled_(!measures() || line_.size() < 2) {
  for (const Load& load : line_) {
    const auto tensor = static_cast<std::size_t>(load.tensor);
    if (bytes_.size() <= tensor) bytes_.resize(tensor + 1);
    bytes_[tensor] = load.bytes;
  }
}

void Adaptation::write(double total, std::span<const double> ready, std::span<const double> exchanges, std::uint64_t* words) const {
  *words++ = nanoseconds(total);
  for (const Load& load : line_) *words++ = nanoseconds(ready[static_cast<std::size_t>(load.tensor)]);
  for (const double exchange : exchanges) *words++ = turned - nanoseconds(exchange);
}

std::optional<Division> Adaptation::learn(const std::uint64_t* words, const Division& division) {
  if (settled_ || iteration_++ < warm_iterations) return std::nullopt;
  const bool first = iteration_ == warm_iterations + 1;
  const auto average = [&](double& known, double now) { known = (first ? 0 : known) + now / measured_iterations; };
  exchanges_.resize(division.size());
  average(total_, seconds(*words++));
  for (Load& load : line_) average(load.ready, seconds(*words++));
  for (double& exchange : exchanges_) average(exchange, seconds(turned - *words++));
  if (iteration_ < warm_iterations + measured_iterations) return std::nullopt;

  iteration_ = 0;
  Division chosen = end_round(division);
  if (chosen == division) return std::nullopt;
  ++regroupings_;
  return chosen;
}

Division Adaptation::end_round(const Division& division) {
  if (confirms_) {
    tried_.front().total = total_;
    settled_ = true;
    return best();
  }
  tried_.push_back({division, total_});
  for (std::size_t i = 0; i < division.size(); ++i) samples_.push_back({bytes_of(division[i]), exchanges_[i]});
  cost_ = fit(samples_, prior_);
  std::stable_sort(line_.begin(), line_.end(), [](const Load& a, const Load& b) { return a.ready < b.ready; });
  Division chosen = scheme_.refit({line_, cost_, 0, entry_bytes_});
  const bool known = std::any_of(tried_.begin(), tried_.end(), [&](const Tried& t) { return t.division == chosen; });
  if (tried_.size() < most_rounds && !known) return chosen;
  // The first division ran while caches and thresholds were cold, so it is measured again.
  confirms_ = tried_.size() > 1;
  settled_ = !confirms_;
  return tried_.front().division;
}

/// An earlier division stays if a later one gains no more than the noise of the times.
Division Adaptation::best() const {
  const Tried* fastest = &tried_.front();
  for (const Tried& tried : tried_) {
    if (tried.total < worth_it * fastest->total) fastest = &tried;
  }
  return fastest->division;
}

std::string Adaptation::text() const {
  std::string text = fmt::format("{}: {:.3g} ms for an exchange and {:.3g} ms for each MiB of it",
                                 settled_ ? "settled" : "still measuring", cost_.startup * 1e3, cost_.per_byte * 0x1p20 * 1e3);
  if (!tried_.empty()) text += "; iterations";
  for (const Tried& tried : tried_)
    text +=
        fmt::format("{} {:.3f} ms with {} buffers", &tried == &tried_.front() ? "" : ",", tried.total * 1e3, tried.division.size());
  return text + '\n';
}

std::int64_t Adaptation::bytes_of(const std::vector<int>& buffer) const {
  std::int64_t bytes = 0;
  for (const int tensor : buffer) bytes += bytes_[static_cast<std::size_t>(tensor)];
  return bytes;
}

}  // namespace weir::fusion
