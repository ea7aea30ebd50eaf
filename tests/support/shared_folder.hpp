// shared_folder.hpp: a temporary folder made by rank 0, whose path all processes of a job know.
#pragma once

#include <mpi.h>

#include <string>
#include <weir/weir.hpp>

#include "support/temporary_folder.hpp"

namespace weir::test {

/// Rank 0's folder, used by all ranks.
class SharedFolder {
 public:
  explicit SharedFolder(const Communicator& comm) : path_(own_.path()) {
    path_.resize(200);
    MPI_Bcast(path_.data(), static_cast<int>(path_.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    path_ = path_.c_str();
    last_ = comm.size() - 1;
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int last() const { return last_; }

 private:
  TemporaryFolder own_;
  std::string path_;
  int last_ = 0;
};

}  // namespace weir::test
