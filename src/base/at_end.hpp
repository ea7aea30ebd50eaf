// at_end.hpp: what must stop or finish before the process ends, or before the library that carries messages does.
#pragma once

#include <functional>

namespace weir {

/// What ends.
enum class End { process, messages };

/// Calls `stop` and `finish` at the end of the process and, with End::messages, at that of the library that carries messages, if
/// this object lives then. First every object's `stop` is called: nothing new may begin after it. Then every `finish` is called in
/// turn, again and again until none returns true. Any thread may call them, and more than once. Either may be empty. Neither may
/// make or destroy an AtEnd, or throw.
class AtEnd {
 public:
  AtEnd(End earliest, std::function<void()> stop, std::function<bool(End end)> finish);
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd();

 private:
  friend void before_end(End end) noexcept;
  End earliest_;
  std::function<void()> stop_;           // empty: nothing to stop
  std::function<bool(End end)> finish_;  // empty: nothing to finish
};

/// Reports that `end` is about to come. The end of the process is reported automatically.
void before_end(End end) noexcept;

}  // namespace weir
