// rank_check.hpp: assertions from many rank threads. Catch2's own are not thread-safe. Keeps the first failure.
#pragma once

#include <cmath>
#include <mutex>
#include <string>

namespace weir::test {

class RankCheck {
 public:
  void that(bool condition, const std::string& text) {
    if (condition) return;
    const std::scoped_lock lock(mutex_);
    if (failure_.empty()) failure_ = text;
  }
  template <class T>
  void at_most(T value, T bound, const std::string& text) {
    that(value <= bound, text + ": " + std::to_string(value) + " exceeds " + std::to_string(bound));
  }
  [[nodiscard]] std::string failure() const { return failure_; }

 private:
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace weir::test
