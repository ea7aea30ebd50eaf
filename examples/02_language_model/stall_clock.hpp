// stall_clock.hpp: measures how long a rank's computation waits for communication (EmbRace section 5.4).
#pragma once

#include <mpi.h>

namespace language_model {

/// Wall time inside Weir's calls. `stall`: in calls that wait or prepare messages. `progress`: in calls between matrix products.
struct StallClock {
  double stall = 0;
  double progress = 0;
};

/// Adds the time from its construction to its destruction to `seconds`.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begin_(MPI_Wtime()) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() { seconds_ += MPI_Wtime() - begin_; }

 private:
  double& seconds_;
  double begin_;
};

}  // namespace language_model
