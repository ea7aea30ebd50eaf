// happening.hpp: what a run can wait for besides messages: work on a GPU.
#pragma once

namespace weir {

class Happening {
 public:
  Happening() = default;
  virtual ~Happening() = default;
  Happening(const Happening&) = delete;
  Happening& operator=(const Happening&) = delete;
  /// Looks, without waiting. Throws Error if it never will have.
  [[nodiscard]] virtual bool happened() = 0;
};

}  // namespace weir
