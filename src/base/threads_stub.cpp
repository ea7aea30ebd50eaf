// threads_stub.cpp: the threads of builds without TBB: the caller's.
#include "base/threads.hpp"

namespace weir {

struct Threads::Pool {};

Threads::Threads(int /*count*/, std::vector<std::vector<int>> /*cores*/) {}

void Threads::run(int parts, void (*call)(const void*, int), const void* body) const {
  for (int part = 0; part < parts; ++part) call(body, part);
}

const char* threads_version() { return "none: built without oneTBB, every rank has one thread"; }

}  // namespace weir
