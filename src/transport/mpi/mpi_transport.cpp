#include "transport/mpi/mpi_transport.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"

namespace weir {
namespace {

// MPI counts are ints; pieces of this size also keep implementations off their 2 GiB corner cases.
constexpr std::int64_t piece_bytes = std::int64_t{1} << 30;

void check(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(WEIR_ERR_TRANSPORT, "{} failed: {}", what, std::string_view(text.data(), static_cast<std::size_t>(length)));
}

bool mpi_is_running() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

class MpiTransport final : public Transport {
 public:
  MpiTransport(MPI_Comm comm, int rank, int size) : Transport(rank, size), comm_(comm) {
    int found = 0;
    int* upper_bound = nullptr;
    MPI_Comm_get_attr(comm_, MPI_TAG_UB, &upper_bound, &found);
    max_tag_ = found ? *upper_bound : 32767;
  }

  ~MpiTransport() override {
    // After MPI_Finalize nothing may be called; after abandoned sends MPI_Comm_free may wait for peers that are gone.
    if (!mpi_is_running() || abandoned_) return;
    for (MPI_Comm& lane : lanes_) MPI_Comm_free(&lane);
    MPI_Comm_free(&comm_);
  }

  [[nodiscard]] std::string name() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::string_view whole(text.data());
    return fmt::format("mpi ({})", whole.substr(0, whole.find_first_of(",\n")));
  }
  [[nodiscard]] int max_tag() const override { return max_tag_; }
  [[nodiscard]] bool has_allreduce() const override { return true; }
  int open_lane() override {
    MPI_Comm lane = MPI_COMM_NULL;
    check(MPI_Comm_dup(comm_, &lane), "MPI_Comm_dup");
    lanes_.push_back(lane);
    return static_cast<int>(lanes_.size()) - 1;
  }

 private:
  using Pieces = std::vector<MPI_Request>;

  void post_send(int index, const void* data) override {
    const Slot& s = slot(index);
    for_pieces(index, [&](std::int64_t offset, int bytes, MPI_Request* request) {
      check(MPI_Isend(static_cast<const char*>(data) + offset, bytes, MPI_BYTE, s.peer, s.tag, comm_, request), "MPI_Isend");
    });
  }

  void post_receive(int index, void* data) override {
    const Slot& s = slot(index);
    for_pieces(index, [&](std::int64_t offset, int bytes, MPI_Request* request) {
      check(MPI_Irecv(static_cast<char*>(data) + offset, bytes, MPI_BYTE, s.peer, s.tag, comm_, request), "MPI_Irecv");
    });
  }

  void post_allreduce(int index, void* data, DataType type, int lane) override {
    const bool single = type == DataType::float32;
    for_pieces(index, [&](std::int64_t offset, int bytes, MPI_Request* request) {
      check(MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(data) + offset, bytes / (single ? 4 : 8),
                           single ? MPI_FLOAT : MPI_DOUBLE, MPI_SUM, lanes_[static_cast<std::size_t>(lane)], request),
            "MPI_Iallreduce");
    });
  }

  template <class Post>
  void for_pieces(int index, Post post) {
    if (!mpi_is_running()) fail(WEIR_ERR_STATE, "MPI is not running: Weir was called after MPI_Finalize");
    Pieces& pieces = pieces_[static_cast<std::size_t>(index)];
    const std::int64_t total = slot(index).bytes;
    pieces.assign(static_cast<std::size_t>(std::max<std::int64_t>(1, (total + piece_bytes - 1) / piece_bytes)), MPI_REQUEST_NULL);
    std::int64_t offset = 0;
    for (MPI_Request& request : pieces) {
      const std::int64_t bytes = std::min(piece_bytes, total - offset);
      post(offset, static_cast<int>(bytes), &request);
      offset += bytes;
    }
  }

  bool test_slot(int index) override {
    Pieces& pieces = pieces_[static_cast<std::size_t>(index)];
    const Slot& s = slot(index);
    while (!pieces.empty()) {
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&pieces.back(), &done, &status), "MPI_Test");
      if (!done) return false;
      if (s.kind == Kind::receive) check_size(status, s.bytes - static_cast<std::int64_t>(pieces.size() - 1) * piece_bytes, s);
      pieces.pop_back();
    }
    return true;
  }

  static void check_size(const MPI_Status& status, std::int64_t expected, const Slot& s) {
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != std::min(expected, piece_bytes)) {
      fail(WEIR_ERR_TRANSPORT, "rank {} sent {} bytes under tag {} where {} were agreed", s.peer, bytes, s.tag,
           std::min(expected, piece_bytes));
    }
  }

  void abandon_slot(int index) override {
    abandoned_ = true;
    if (slot(index).kind == Kind::allreduce) return;  // MPI can neither cancel nor free these
    for (MPI_Request& request : pieces_[static_cast<std::size_t>(index)]) {
      if (request == MPI_REQUEST_NULL) continue;
      if (slot(index).kind == Kind::receive) MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
  }

  void grow(int slots) override {
    pieces_.resize(static_cast<std::size_t>(slots));
    for (Pieces& pieces : pieces_) pieces.reserve(1);
  }

  MPI_Comm comm_;
  int max_tag_ = 0;
  bool abandoned_ = false;
  std::vector<MPI_Comm> lanes_;
  std::vector<Pieces> pieces_;
};

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm) {
  if (!mpi_is_running())
    fail(WEIR_ERR_ARGUMENT, "MPI is not running: call MPI_Init before making a communicator and keep it until MPI_Finalize");
  require(comm != MPI_COMM_NULL, "the MPI communicator is MPI_COMM_NULL");
  int inter = 0;
  MPI_Comm_test_inter(comm, &inter);
  require(!inter, "the MPI communicator is an intercommunicator: give an intracommunicator");
  MPI_Comm copy = MPI_COMM_NULL;
  check(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  int rank = 0, size = 0;
  MPI_Comm_rank(copy, &rank);
  MPI_Comm_size(copy, &size);
  return std::make_unique<MpiTransport>(copy, rank, size);
}

}  // namespace weir
