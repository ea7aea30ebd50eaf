// at_end.hpp: what must stop, or come to its end, before the process ends, or before the library that carries messages does.
#pragma once

#include <functional>

namespace weir {

/// What comes to its end.
enum class End { process, messages };

/// While it lives, stop(end) is called at the end of the process and, with End::messages, before that of the library that carries
/// messages: more than once, perhaps, and by whatever thread. Where it returns true it is called again, after all others, until
/// none does. It must not make or destroy another one, and must throw nothing.
class AtEnd {
 public:
  AtEnd(End earliest, std::function<bool(End end)> stop);
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  ~AtEnd();

 private:
  friend void before_end(End end) noexcept;
  End earliest_;
  std::function<bool(End end)> stop_;
};

/// `end` is about to come. The process's comes by itself.
void before_end(End end) noexcept;

}  // namespace weir
