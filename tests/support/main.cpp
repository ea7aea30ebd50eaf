#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>

#include "support/session.hpp"

namespace {

/// Virtual ranks wait for each other all the time, and to wake one on another processor takes half of their time. A socket's name
/// keeps other tests off the processor until this process ends; where all are taken, it stays on none.
[[maybe_unused]] void stay_on_one_processor() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int mark = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weir-test-processor-%d", processor);
    if (bind(mark, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
  close(mark);
}

}  // namespace

int main(int argc, char** argv) {
#ifdef WEIR_TEST_ONE_PROCESSOR
  stay_on_one_processor();
#endif
  return weir::test::run_session(argc, argv);
}
