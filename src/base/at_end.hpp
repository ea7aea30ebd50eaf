// at_end.hpp: what must stop, or come to its end, before the process ends, or before the library that carries messages does.
#pragma once

#include <functional>

namespace weir {

/// What comes to its end.
enum class End { process, messages };

/// While it lives, the end of the process and, with End::messages, that of the library that carries messages are told to it, by
/// whatever thread and more than once, perhaps: first every `stop`, after which nothing new may begin; then every `finish` in turn,
/// again and again until none returns true. Either may be empty. Neither may make or destroy another one, or throw.
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

/// `end` is about to come. The process's comes by itself.
void before_end(End end) noexcept;

}  // namespace weir
