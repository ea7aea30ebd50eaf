#include "cli/in_child.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"

namespace weir::cli {

bool survives(const std::function<void()>& work, int seconds) {
  std::fflush(nullptr);  // otherwise the child would write the buffered output again
  const pid_t child = fork();
  if (child < 0) fail(WEIR_ERR_STATE, "no process can be started: {}", std::strerror(errno));
  if (child == 0) {
    const rlimit no_core{0, 0}, time{static_cast<rlim_t>(seconds), static_cast<rlim_t>(seconds)};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_CPU, &time);
    if (const int nowhere = open("/dev/null", O_WRONLY); nowhere >= 0)
      dup2(nowhere, STDERR_FILENO);  // hides last messages of glibc and HDF5
    try {
      work();
    } catch (...) {  // the parent will see the same error
    }
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status);
}

}  // namespace weir::cli
