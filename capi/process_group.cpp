// The process group of torch.distributed: calls of MPI that a thread of each group advances, and sums of Weir.
#include "process_group.hpp"

#include <sched.h>

#include <array>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>

#include "shim.hpp"

using namespace weir::capi;

namespace weir::capi::group {

using GroupClock = std::chrono::steady_clock;

constexpr std::int64_t fewest_summed = 1 << 15;   // elements from which on Weir sums: its shared memory then beats MPI's messages
constexpr std::int64_t fewest_of_ring = 1 << 16;  // elements of a rank's part
constexpr std::size_t most_plans = 32;
constexpr double grace = 1.0;  // seconds for which calls may still finish after a rank of the job has ended

double elapsed_since(GroupClock::time_point begin) { return std::chrono::duration<double>(GroupClock::now() - begin).count(); }

/// Gives the core to others while a thread waits. A slow yield means that others compute on this core: the thread then sleeps, for
/// twice as many turns as after the last slow one.
class Patience {
 public:
  void wait() {
    if (naps_left_ > 0) {
      --naps_left_;
      std::this_thread::sleep_for(std::chrono::nanoseconds(1));
      return;
    }
    const auto begin = GroupClock::now();
    sched_yield();
    const bool slow = elapsed_since(begin) > 5e-4;
    naps_ = slow ? std::min(2 * naps_, 6400) : 50;
    if (slow || elapsed_since(progress_) > 0.1) naps_left_ = naps_;
  }
  void progress() { progress_ = GroupClock::now(); }

 private:
  int naps_ = 50, naps_left_ = 0;
  GroupClock::time_point progress_ = GroupClock::now();
};

void succeed(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  throw weir::Error(WEIR_ERR_TRANSPORT, std::string(call) + " failed: " + text);
}

MPI_Datatype type_of(std::int32_t type) {
  const std::array types = {MPI_UINT8_T,  MPI_INT8_T,   MPI_INT16_T, MPI_INT32_T, MPI_INT64_T,         MPI_UINT16_T,
                            MPI_UINT32_T, MPI_UINT64_T, MPI_FLOAT,   MPI_DOUBLE,  MPI_C_DOUBLE_COMPLEX};
  return types.at(static_cast<std::size_t>(type));
}

/// Takes the larger or smaller elements, and NaN if either is NaN. The bits do not depend on the order: those of MPI_MIN and
/// MPI_MAX do, so that ranks would differ.
template <class T, bool largest>
void take_extremes(void* in, void* inout, int* count, MPI_Datatype*) {
  const T* const theirs = static_cast<const T*>(in);
  T* const mine = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) {
    const T a = theirs[i], b = mine[i];
    if (std::isnan(a) || std::isnan(b))
      mine[i] = std::numeric_limits<T>::quiet_NaN();
    else if (a == b ? std::signbit(a) != largest : (a > b) == largest)
      mine[i] = a;
  }
}

MPI_Op made_of(MPI_User_function* function) {
  MPI_Op made = MPI_OP_NULL;
  succeed(MPI_Op_create(function, 1, &made), "MPI_Op_create");
  return made;
}

template <class T>
MPI_Op extremes(bool largest) {
  static const std::array made = {made_of(take_extremes<T, false>), made_of(take_extremes<T, true>)};
  return made.at(largest ? 1 : 0);
}

MPI_Op operation_of(std::int32_t operation, std::int32_t type) {
  const bool largest = operation == static_cast<std::int32_t>(GroupOperation::max);
  if (largest || operation == static_cast<std::int32_t>(GroupOperation::min)) {
    if (type == static_cast<std::int32_t>(GroupType::float32)) return extremes<float>(largest);
    if (type == static_cast<std::int32_t>(GroupType::float64)) return extremes<double>(largest);
  }
  const std::array operations = {MPI_SUM, MPI_PROD, MPI_MIN, MPI_MAX, MPI_BAND, MPI_BOR, MPI_BXOR};
  return operations.at(static_cast<std::size_t>(operation));
}

struct InFlight {
  weir_group_call what{};
  std::int64_t id = 0;
  std::vector<int> send_counts, send_begins, recv_counts, recv_begins;
  MPI_Request request = MPI_REQUEST_NULL;
  bool queued = false;  // it waits for its turn, or has it
  bool finished = false;
  bool given_up = false;  // finished with an error, but MPI may still use its memory
  GroupClock::time_point begin = GroupClock::now();
  double seconds = std::numeric_limits<double>::infinity();  // after which it is given up
  weir_status status = WEIR_OK;
  std::string error;
  int source = -1;
  weir_group_function function = nullptr;
};

/// Copies the counts of all ranks, and adds up where each rank's elements begin.
void take_counts(const std::int32_t* given, int ranks, std::vector<int>& counts, std::vector<int>& begins) {
  if (given == nullptr) return;
  counts.assign(given, given + ranks);
  begins.resize(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
}

std::atomic<std::int64_t> next_id = 1;

}  // namespace weir::capi::group

using namespace weir::capi::group;

struct weir_group {
 public:
  weir_group(MPI_Comm main, MPI_Comm side) : main_(main), side_(side) {
    for (MPI_Comm comm : {main_, side_}) succeed(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    succeed(MPI_Comm_rank(main_, &rank_), "MPI_Comm_rank");
    succeed(MPI_Comm_size(main_, &size_), "MPI_Comm_size");
    thread_ = std::thread([this] { run(); });
  }

  std::int64_t start(const weir_group_call& what) {
    auto call = std::make_unique<InFlight>();
    call->what = what;
    call->id = next_id++;
    take_counts(what.send_counts, size_, call->send_counts, call->send_begins);
    take_counts(what.recv_counts, size_, call->recv_counts, call->recv_begins);
    const std::int64_t id = call->id;
    const std::lock_guard lock(mutex_);
    post(*call);
    if (call->queued) queue_.push_back(call.get());
    if (call->request != MPI_REQUEST_NULL) testing_.push_back(call.get());
    calls_.emplace(id, std::move(call));
    work_.notify_all();
    return id;
  }

  bool wait(std::int64_t id, double seconds, int& source) {
    std::unique_lock lock(mutex_);
    const InFlight& call = find(id);
    const auto is_over = [&] { return call.finished; };
    if (!finished_.wait_for(lock, std::chrono::duration<double>(seconds), is_over)) return false;
    source = call.source;
    if (call.status != WEIR_OK) throw weir::Error(call.status, call.error);
    return true;
  }

  bool notify(std::int64_t id, double seconds, weir_group_function function) {
    const std::lock_guard lock(mutex_);
    InFlight& call = find(id);
    call.seconds = seconds;
    if (!call.finished) call.function = function;
    return call.finished;
  }

  void forget(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    InFlight& call = find(id);
    need(call.finished, "a call that is in flight cannot be forgotten");
    if (call.queued) queue_.pop_front();
    if (!call.given_up) calls_.erase(id);
    work_.notify_all();
  }

  /// Returns the number of calls that are left in flight.
  std::size_t end(double seconds) {
    need(std::this_thread::get_id() != thread_.get_id(), "a process group cannot be destroyed by what its own call has called");
    const auto begin = GroupClock::now();
    {
      std::unique_lock lock(mutex_);
      for (InFlight* const call : testing_)
        if (call->what.kind == static_cast<std::int32_t>(GroupCall::receive)) MPI_Cancel(&call->request);
      while (in_flight() > 0 && elapsed_since(begin) < seconds) finished_.wait_for(lock, std::chrono::milliseconds(10));
      stop_ = true;
      work_.notify_all();
    }
    thread_.join();
    const auto is_over = [](InFlight* const call) {
      int done = 0;
      return MPI_Test(&call->request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0;
    };
    while (std::erase_if(given_up_, is_over), !given_up_.empty() && elapsed_since(begin) < seconds) std::this_thread::yield();
    const std::size_t left = in_flight() + given_up_.size();
    if (left > 0) return left;
    plans_.clear();
    communicator_.reset();
    MPI_Comm_free(&main_);
    MPI_Comm_free(&side_);
    return 0;
  }

 private:
  struct SumPlan {
    std::int64_t count = 0;
    std::int32_t type = 0;
    weir::AllreducePlan plan;
  };

  InFlight& find(std::int64_t id) {
    const auto found = calls_.find(id);
    need(found != calls_.end(), "the group has no such call");
    return *found->second;
  }

  /// Returns the number of calls that MPI or Weir still works on, or will.
  [[nodiscard]] std::size_t in_flight() const {
    const auto waits = [](const InFlight* call) {
      return call->request == MPI_REQUEST_NULL && !call->finished && call->what.kind != static_cast<std::int32_t>(GroupCall::turn);
    };
    return testing_.size() + static_cast<std::size_t>(std::count_if(queue_.begin(), queue_.end(), waits));
  }

  [[nodiscard]] bool is_sum_of_weir(const weir_group_call& what) const {
    return size_ > 1 && !what.in_turn && what.kind == static_cast<std::int32_t>(GroupCall::all_reduce) &&
           what.count >= fewest_summed && what.operation == static_cast<std::int32_t>(GroupOperation::sum) &&
           (what.type == static_cast<std::int32_t>(GroupType::float32) ||
            what.type == static_cast<std::int32_t>(GroupType::float64));
  }

  /// Hands a call to MPI. Sums of Weir begin with a barrier, so that late ranks are waited for as PyTorch's timeout says.
  void post(InFlight& call) {
    const weir_group_call& w = call.what;
    const MPI_Comm comm = w.in_turn ? side_ : main_;
    const MPI_Datatype type = type_of(w.type);
    const int count = static_cast<int>(w.count);
    MPI_Request* const request = &call.request;
    if (is_sum_of_weir(w)) {
      call.queued = true;
      succeed(MPI_Ibarrier(comm, request), "MPI_Ibarrier");
      return;
    }
    int extent = 0;
    MPI_Type_size(type, &extent);
    switch (static_cast<GroupCall>(w.kind)) {
      case GroupCall::barrier:
        return succeed(MPI_Ibarrier(comm, request), "MPI_Ibarrier");
      case GroupCall::broadcast:
        return succeed(MPI_Ibcast(w.recv, count, type, w.peer, comm, request), "MPI_Ibcast");
      case GroupCall::all_reduce:
        return succeed(MPI_Iallreduce(MPI_IN_PLACE, w.recv, count, type, operation_of(w.operation, w.type), comm, request),
                       "MPI_Iallreduce");
      case GroupCall::reduce:
        return succeed(MPI_Ireduce(rank_ == w.peer ? MPI_IN_PLACE : w.recv, w.recv, count, type, operation_of(w.operation, w.type),
                                   w.peer, comm, request),
                       "MPI_Ireduce");
      case GroupCall::all_gather: {
        const bool in_place = w.send == static_cast<const char*>(w.recv) + std::int64_t{rank_} * count * extent;
        return succeed(MPI_Iallgather(in_place ? MPI_IN_PLACE : w.send, count, type, w.recv, count, type, comm, request),
                       "MPI_Iallgather");
      }
      case GroupCall::all_gather_v:
        return succeed(
            MPI_Iallgatherv(w.send, count, type, w.recv, call.recv_counts.data(), call.recv_begins.data(), type, comm, request),
            "MPI_Iallgatherv");
      case GroupCall::gather:
        return succeed(MPI_Igather(w.send, count, type, w.recv, count, type, w.peer, comm, request), "MPI_Igather");
      case GroupCall::scatter:
        return succeed(MPI_Iscatter(w.send, count, type, w.recv, count, type, w.peer, comm, request), "MPI_Iscatter");
      case GroupCall::reduce_scatter:
        return succeed(MPI_Ireduce_scatter_block(w.send, w.recv, count, type, operation_of(w.operation, w.type), comm, request),
                       "MPI_Ireduce_scatter_block");
      case GroupCall::all_to_all_v:
        return succeed(MPI_Ialltoallv(w.send, call.send_counts.data(), call.send_begins.data(), type, w.recv,
                                      call.recv_counts.data(), call.recv_begins.data(), type, comm, request),
                       "MPI_Ialltoallv");
      case GroupCall::send:
        return succeed(MPI_Isend(w.send, count, type, w.peer, w.tag, comm, request), "MPI_Isend");
      case GroupCall::receive:
        return succeed(MPI_Irecv(w.recv, count, type, w.peer < 0 ? MPI_ANY_SOURCE : w.peer, w.tag, comm, request), "MPI_Irecv");
      case GroupCall::turn:
        call.queued = true;
        return;
    }
    throw weir::Error(WEIR_ERR_ARGUMENT, "there is no call of kind " + std::to_string(w.kind));
  }

  void run() {
    Patience patience;
    std::unique_lock lock(mutex_);
    while (!stop_) {
      const bool has_turn = !queue_.empty() && queue_.front()->what.kind == static_cast<std::int32_t>(GroupCall::turn);
      if (testing_.empty() && (queue_.empty() || (has_turn && queue_.front()->finished))) {
        work_.wait(lock);
        patience.progress();
        continue;
      }
      test_requests();
      give_up();
      advance_queue(lock);
      if (!over_.empty()) {
        patience.progress();
        finished_.notify_all();
        const auto over = std::exchange(over_, {});
        lock.unlock();
        for (const auto& [function, id] : over)
          if (function != nullptr) function(id);
      } else {
        lock.unlock();
        if (operation_ == nullptr) patience.wait();  // otherwise Weir has waited
      }
      lock.lock();
    }
  }

  void finish(InFlight& call, weir_status status = WEIR_OK, const char* error = "") {
    call.status = status;
    call.error = error;
    call.finished = true;
    over_.emplace_back(call.function, call.id);
  }

  void test_requests() {
    std::erase_if(testing_, [&](InFlight* const call) {
      int done = 0;
      MPI_Status status;
      try {
        succeed(MPI_Test(&call->request, &done, &status), "MPI_Test");
      } catch (const weir::Error& error) {
        std::erase(queue_, call);
        call->queued = false;
        finish(*call, error.status(), error.what());
        return true;
      }
      if (!done) return false;
      if (call->what.kind == static_cast<std::int32_t>(GroupCall::receive)) call->source = status.MPI_SOURCE;
      if (!call->queued) finish(*call);
      return true;
    });
  }

  /// Fails the calls of MPI that are late, and all of them once a rank has ended. MPI may still use their memory.
  void give_up() {
    const auto now = GroupClock::now();
    if (now < next_look_) return;
    next_look_ = now + std::chrono::milliseconds(50);
    const char* const lost = weir::detail::lost_rank();
    if (lost != nullptr && !lost_since_) lost_since_ = now;
    std::erase_if(testing_, [&](InFlight* const call) {
      const bool is_lost = lost != nullptr && elapsed_since(std::max(*lost_since_, call->begin)) > grace;
      if (!is_lost && elapsed_since(call->begin) < call->seconds) return false;
      std::erase(queue_, call);
      call->queued = false;
      call->given_up = true;
      given_up_.push_back(call);
      const std::string late = "Timed out waiting " + std::to_string(std::lround(call->seconds * 1000)) +
                               "ms for the other ranks of the group: not all of them have called it";
      finish(*call, is_lost ? WEIR_ERR_TRANSPORT : WEIR_ERR_TIMEOUT, is_lost ? lost : late.c_str());
      return true;
    });
  }

  /// Advances the first of the calls that take turns. Only the group's thread uses the communicator of Weir.
  void advance_queue(std::unique_lock<std::mutex>& lock) {
    if (queue_.empty()) return;
    InFlight& call = *queue_.front();
    if (call.finished || call.request != MPI_REQUEST_NULL) return;
    if (call.what.kind == static_cast<std::int32_t>(GroupCall::turn)) return finish(call);
    bool done = true;
    weir_status status = WEIR_OK;
    std::string error;
    const double slice = testing_.empty() ? 1e-3 : 1e-4;
    lock.unlock();
    try {
      if (operation_ == nullptr) {
        auto started = std::make_unique<weir::Operation>(plan_for(call.what).start_raw(call.what.recv, nullptr, call.what.count));
        operation_ = std::move(started);
      }
      done = operation_->wait_for(slice);
    } catch (const weir::Error& caught) {
      status = caught.status();
      error = caught.what();
    } catch (const std::exception& caught) {
      status = WEIR_ERR_INTERNAL;
      error = caught.what();
    }
    lock.lock();
    if (!done) return;
    operation_.reset();
    queue_.pop_front();
    call.queued = false;
    finish(call, status, error.c_str());
  }

  /// Returns the plan for such a sum. All ranks make and forget the same plans in the same order.
  weir::AllreducePlan& plan_for(const weir_group_call& what) {
    if (!communicator_) communicator_.emplace(side_);
    const auto fits = [&](const SumPlan& plan) { return plan.count == what.count && plan.type == what.type; };
    const auto found = std::find_if(plans_.begin(), plans_.end(), fits);
    if (found != plans_.end()) {
      std::rotate(plans_.begin(), found, found + 1);  // the last used one comes first
    } else {
      weir::AllreduceConfig config;
      config.count = what.count;
      config.type = what.type == static_cast<std::int32_t>(GroupType::float64) ? weir::DataType::float64 : weir::DataType::float32;
      // Sums in nodes, and rings between them, have the fewest bytes. Rings have the most steps, which only long parts make up for.
      const bool in_node = std::ssize(communicator_->group(weir::Level::node)) == size_;
      config.algorithm = in_node || what.count / size_ >= fewest_of_ring ? "dense_torus2d" : "auto";
      config.compressor = "none";
      config.average = false;
      config.non_finite = weir::NonFinite::propagate;
      config.name = "all_reduce of torch.distributed";
      if (plans_.size() == most_plans) plans_.pop_back();
      plans_.push_front(SumPlan{what.count, what.type, weir::AllreducePlan(*communicator_, config)});
    }
    return plans_.front().plan;
  }

  MPI_Comm main_, side_;
  int rank_ = 0, size_ = 1;
  std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::map<std::int64_t, std::unique_ptr<InFlight>> calls_;
  std::vector<InFlight*> testing_;
  std::deque<InFlight*> queue_;  // turns and sums of Weir, in the order of their starts
  std::vector<std::pair<weir_group_function, std::int64_t>> over_;
  std::vector<InFlight*> given_up_;
  GroupClock::time_point next_look_ = GroupClock::now();
  std::optional<GroupClock::time_point> lost_since_;
  bool stop_ = false;
  // What only the thread uses.
  std::optional<weir::Communicator> communicator_;
  std::deque<SumPlan> plans_;
  std::unique_ptr<weir::Operation> operation_;
  std::thread thread_;
};

namespace weir::capi::group {

std::array<MPI_Comm, 2> make_communicators(const std::vector<int>& ranks, int tag) {
  MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  succeed(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  succeed(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members), "MPI_Group_incl");
  std::array<MPI_Comm, 2> made = {MPI_COMM_NULL, MPI_COMM_NULL};
  for (MPI_Comm& comm : made) {
    succeed(MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &comm), "MPI_Comm_create_group");
    need(comm != MPI_COMM_NULL, "this process is not among the ranks of its process group");
  }
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  return made;
}

/// Does the same in a thread of its own, which is left behind if a rank ends: MPI would wait for it for ever.
std::array<MPI_Comm, 2> make_communicators_of_the_living(const std::vector<int>& ranks, int tag) {
  std::promise<std::array<MPI_Comm, 2>> promise;
  std::future<std::array<MPI_Comm, 2>> made = promise.get_future();
  std::thread([ranks, tag, promise = std::move(promise)]() mutable {
    try {
      promise.set_value(make_communicators(ranks, tag));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  const auto begin = GroupClock::now();
  while (made.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    const char* const lost = weir::detail::lost_rank();
    if (lost != nullptr && elapsed_since(begin) > grace)
      throw weir::Error(WEIR_ERR_TRANSPORT, std::string("the process group cannot be made, because ") + lost);
  }
  return made.get();
}

}  // namespace weir::capi::group

extern "C" {

weir_status weir_group_world(std::int32_t* rank, std::int32_t* size) {
  return guard(nullptr, [&] {
    int number = 0, ranks = 1;
    succeed(MPI_Comm_rank(MPI_COMM_WORLD, &number), "MPI_Comm_rank");
    succeed(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
    *rank = number;
    *size = ranks;
  });
}

weir_status weir_group_create(const std::int32_t* ranks, std::int32_t count, std::int32_t tag, weir_group** group) {
  return guard(nullptr, [&] {
    // MPICH takes this handler, not the group's, for errors of requests. It would end the job.
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    succeed(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler), "MPI_Comm_get_errhandler");
    if (handler == MPI_ERRORS_ARE_FATAL) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    const std::array<MPI_Comm, 2> made = make_communicators_of_the_living(std::vector<int>(ranks, ranks + count), tag);
    *group = new weir_group(made[0], made[1]);
  });
}

weir_status weir_group_start(weir_group* group, const weir_group_call* call, std::int64_t* id) {
  return guard(nullptr, [&] { *id = group->start(*call); });
}

weir_status weir_group_wait(weir_group* group, std::int64_t id, double seconds, std::int32_t* done, std::int32_t* source) {
  *done = 1;
  return guard(nullptr, [&] {
    int from = -1;
    *done = group->wait(id, seconds, from) ? 1 : 0;
    *source = from;
  });
}

weir_status weir_group_notify(weir_group* group, std::int64_t id, double seconds, weir_group_function function,
                              std::int32_t* done) {
  return guard(nullptr, [&] { *done = group->notify(id, seconds, function) ? 1 : 0; });
}

weir_status weir_group_forget(weir_group* group, std::int64_t id) {
  return guard(nullptr, [&] { group->forget(id); });
}

weir_status weir_group_destroy(weir_group* group, double seconds, std::int32_t* left) {
  return guard(nullptr, [&] {
    *left = static_cast<std::int32_t>(group->end(seconds));
    if (*left == 0) delete group;
  });
}

}  // extern "C"
