// The gradients of one model, of one type: units that select, buffers that exchange, and the course of an iteration.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "communicator/input_error.hpp"
#include "fusion/adaptation.hpp"
#include "fusion/buffers.hpp"
#include "fusion/fused.hpp"
#include "fusion/iteration.hpp"
#include "observe/gauges.hpp"

namespace weir::fusion {
namespace {

template <class T>
class TypedFused final : public detail::FusedImpl, private LaterWriter {
 public:
  TypedFused(std::shared_ptr<detail::CommunicatorState> communicator, FusionSetup setup, std::span<const FusedTensor> described)
      : FusedImpl(std::move(communicator), setup.config, described),
        shared_{.comm = comm,
                .config = config,
                .row = setup.row,
                .tensors = tensors,
                .threads = comm->threads_for(0),
                .memory = HostArrays<T>({}, nullptr, 0, 0, comm->threads_for(0)),
                .slots = std::vector<Slot<T>>(tensors.size())},
        buffers_(shared_, setup),
        adaptation_(*setup.scheme, setup.line, setup.cost, buffers_.full_bytes()),
        explanation_(std::move(setup.explanation)),
        ready_times_(tensors.size()) {
    exchange_times_.reserve(adaptation_.settled() ? 0 : most_buffers());
    arrays_.reserve(tensors.size());
    selecting_.name = selecting_name_;
    selecting_.object = config.name;
    selecting_.call = comm->engine.new_call();
    comm->engine.add_writer(*this);
  }
  ~TypedFused() override { comm->engine.remove_writer(*this); }
  /// Returns how many tags open() needs.
  [[nodiscard]] int tags() const { return static_cast<int>(first_tag + most_buffers() + buffers_.tags_of_phases()); }
  /// Uses the tags of these leases, which are the same on all ranks.
  void open(std::vector<detail::Lease> leases) {
    shared_.leases = std::move(leases);
    const std::size_t most_words = 1 + adaptation_.words(adaptation_.settled() ? 0 : most_buffers());
    ending_.emplace(comm, config.name, "end of an iteration", shared_.tag(0), most_words, shared_.statistics);
    buffers_.use(buffers_.division(), buffers_.make_exchanges(buffers_.division(), first_tag));
    buffers_.make_phases(first_tag + most_buffers());
  }

  void ready(std::int64_t tensor, void* gradient, std::int64_t count, DataType type, bool contributes) override {
    require_usable();
    begin();
    if (tensor < 0 || tensor >= std::ssize(tensors)) return note(Wrong::unknown, tensor);
    Slot<T>& slot = shared_.slots[static_cast<std::size_t>(tensor)];
    if (iteration_.is(IterationState::closed)) return note(Wrong::late, tensor);
    if (slot.arrival != Arrival::awaited) return note(Wrong::twice, tensor);
    const FusedTensor& described = tensors[static_cast<std::size_t>(tensor)];
    Wrong wrong = !contributes && !described.optional ? Wrong::not_optional : what_is_wrong(described, gradient, count, type);
    if (wrong == Wrong::none && count > 0) {
      const std::span bytes(static_cast<const std::byte*>(gradient), static_cast<std::size_t>(count) * sizeof(T));
      const auto next = next_held(bytes);
      if (next != arrays_.end() && next->overlaps(bytes)) {
        wrong = Wrong::shared;
        count = next->tensor;
      } else if (comm->engine.will_write(bytes)) {
        wrong = Wrong::in_use;
      } else {
        arrays_.insert(next, {Held::address(bytes.data()), Held::address(bytes.data() + bytes.size()), static_cast<int>(tensor)});
      }
    }
    slot.arrival = contributes && wrong == Wrong::none ? Arrival::contributes : Arrival::left_out;
    if (!contributes) ++shared_.statistics.tensors_skipped;
    slot.gradient = wrong == Wrong::none ? static_cast<T*>(gradient) : nullptr;
    hand_in(static_cast<int>(tensor), report(wrong, tensor, count));
    last_ready_ = Clock::now();
    ready_times_[static_cast<std::size_t>(tensor)] = since_begin(last_ready_);
    comm->engine.poll();
  }

  void progress() override {
    require_usable();
    comm->engine.poll();
  }

  bool test(std::int64_t tensor, bool idles) override {
    if (nothing_left()) return true;
    if (!may_wait(tensor)) {
      end_iteration();
      return true;
    }
    const WaitClock clock{shared_.statistics.seconds_waited};
    idles ? comm->engine.poll_or_idle() : static_cast<void>(comm->engine.poll());
    if (!buffers_.finished(tensor)) return false;
    // An exchange that broke off is left to the end of the iteration.
    const auto finish_phase = [&](FusedCall& call) {
      if (buffers_.is_phased(tensor)) finish(call);
    };
    if (!buffers_.finish(tensor, finish_phase)) end_iteration();
    return true;
  }

  void wait(std::int64_t tensor) override {
    if (nothing_left()) return;
    if (may_wait(tensor)) {
      const WaitClock clock{shared_.statistics.seconds_waited};
      if (buffers_.finish(tensor, [this](FusedCall& call) { finish(call); })) return;
    }
    end_iteration();
  }

  void wait_all() override {
    const bool left = !nothing_left();
    iteration_.on(IterationEvent::forget);
    if (!left) return;
    begin();
    close();
    end_iteration(false);
  }

  void reset() override {
    require_idle("resetting it");
    buffers_.reset();
    state_ = {};
    statistics = {};
  }

  void scale(double factor) override {
    require_idle("scaling its residuals");
    buffers_.scale(factor);
  }

  void visit_state(StateVisitor& visitor) override {
    require_idle("asking for its state");
    visitor.fixed("rank", comm->topology.rank(), Share::layout);
    visitor.fixed("ranks", comm->topology.size(), Share::layout);
    visitor.fixed("element_bytes", sizeof(T));
    visitor.text("tensors", text_of(tensors));
    visitor.text("scheme", name_of(config.scheme));
    visitor.text("algorithm", config.algorithm, Share::layout);
    if (!adaptation_.measures()) visitor.text("buffers", buffers_.text_of_division(), Share::layout);
    visitor.state(state_);
    buffers_.visit_units(visitor);
    if (visitor.restores()) statistics = {};
    if (adaptation_.measures()) return;  // buffers that follow measured times are not restored
    buffers_.visit_exchanges(visitor);
  }

  [[nodiscard]] const void* residual(int tensor) const override { return buffers_.residual(tensor); }
  [[nodiscard]] std::int64_t memory_bytes() const override { return buffers_.memory_bytes(); }
  [[nodiscard]] std::string explanation() const override {
    return explanation_ + (adaptation_.measures() ? adaptation_.text() : "") + buffers_.explanation();
  }
  [[nodiscard]] int buffer_of(int tensor) const override { return buffers_.buffer_of(tensor); }

  void require_idle(std::string_view what) const override {
    require_usable();
    if (iteration_.in_progress())
      fail(WEIR_ERR_BUSY, "fused '{}' is within an iteration: call wait_all() before {}", config.name, what);
  }

  bool retire() noexcept override {
    shared_.has_owner = false;
    if (iteration_.is(IterationState::broken) || !comm->transport->library().is_running()) return false;
    if (!iteration_.in_progress()) return true;
    // Other ranks wait for the rest of the iteration.
    try {
      abandon();
      buffers_.close();
      if (buffers_.counting() != nullptr) {
        drive_to_end(*buffers_.counting());
        if (any_broken()) return false;
        buffers_.start_last();
      }
      buffers_.for_each_exchange([&](Exchange<T>& exchange) { drive_to_end(exchange); });
      ending_->words[0] = error_.word();
      if (ending_->run.finished) ending_->start(end_words());
      drive_to_end(*ending_);
    } catch (...) {
      return false;
    }
    return !any_broken();
  }

 private:
  static constexpr std::size_t first_tag = 1;  // of buffers; the agreement at the end of an iteration has tag 0

  /// Holds what is kept between iterations, besides units and buffers.
  struct State {
    std::int64_t iterations = 0;

    void visit(StateVisitor& visitor) {
      visitor.value("iterations", iterations);
      visitor.check(iterations >= 0, "iterations", "at least 0");
    }
  };

  /// The array of a tensor that has been handed in.
  struct Held {
    std::uintptr_t begin = 0, end = 0;
    int tensor = 0;

    [[nodiscard]] static std::uintptr_t address(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }
    /// For an array that ends behind the beginning of `bytes`.
    [[nodiscard]] bool overlaps(std::span<const std::byte> bytes) const { return begin < address(bytes.data() + bytes.size()); }
  };

  /// Counts its lifetime as time in which the caller waits.
  struct WaitClock {
    double& seconds;
    const Clock::time_point begin = Clock::now();
    ~WaitClock() { seconds += std::chrono::duration<double>(Clock::now() - begin).count(); }
  };

  [[nodiscard]] std::size_t most_buffers() const {
    return adaptation_.settled() ? buffers_.division().size() : std::max(tensors.size(), buffers_.division().size());
  }
  [[nodiscard]] double since_begin(Clock::time_point at) const { return std::chrono::duration<double>(at - begun_at_).count(); }
  [[nodiscard]] ErrorReport report(Wrong wrong, std::int64_t tensor, std::int64_t count = 0) const {
    return report_of(wrong, comm->topology.rank(), tensor, count);
  }
  /// Records an error that all ranks will learn at the end of the iteration.
  void note(Wrong wrong, std::int64_t tensor) { error_ = std::max(error_, report(wrong, tensor)); }

  // The course of an iteration:

  [[nodiscard]] bool any_broken() const {
    bool any = ending_->run.broken || (buffers_.counting() != nullptr && buffers_.counting()->run.broken);
    buffers_.for_each_exchange([&](const Exchange<T>& exchange) { any = any || exchange.run.broken; });
    return any;
  }
  void require_usable() const {
    comm->require_running();
    if (iteration_.is(IterationState::broken))
      fail(WEIR_ERR_STATE, "fused '{}' cannot go on: an exchange broke off. Make a new communicator and start over", config.name);
  }

  void begin() {
    if (iteration_.in_progress()) return;
    iteration_.on(IterationEvent::gradient);
    error_ = {};
    shared_.statistics = {};
    shared_.in_flight = 0;
    begun_at_ = last_ready_ = Clock::now();
    shared_.last_end = {};
    selecting_.seconds = {};
    for (Slot<T>& slot : shared_.slots) slot = {};
    std::fill(ready_times_.begin(), ready_times_.end(), 0.0);
    arrays_.clear();
    buffers_.rearm();
  }

  [[nodiscard]] Wrong what_is_wrong(const FusedTensor& described, void* gradient, std::int64_t count, DataType type) {
    if (type != config.type) return Wrong::wrong_type;
    if (count != described.count) return Wrong::wrong_count;
    if (count == 0) return Wrong::none;
    if (gradient == nullptr) return Wrong::null_pointer;
    if (reinterpret_cast<std::uintptr_t>(gradient) % sizeof(T) != 0) return Wrong::misaligned;
    if (pointers_.error_of(gradient, nullptr) != InputError::none) return Wrong::device_memory;
    return Wrong::none;
  }

  /// Returns the first array of this iteration that ends behind the beginning of `bytes`. A new array that does not overlap belongs
  /// before it.
  [[nodiscard]] auto next_held(std::span<const std::byte> bytes) const {
    const std::uintptr_t begin = Held::address(bytes.data());
    return std::partition_point(arrays_.begin(), arrays_.end(), [begin](const Held& held) { return held.end <= begin; });
  }
  /// Arrays are held from ready() until their update is in them.
  [[nodiscard]] bool will_write(std::span<const std::byte> memory) const noexcept override {
    if (!iteration_.in_progress() || !shared_.has_owner || memory.empty()) return false;
    for (auto held = next_held(memory); held != arrays_.end() && held->overlaps(memory); ++held)
      if (!buffers_.delivered(held->tensor)) return true;
    return false;
  }

  void hand_in(int tensor, ErrorReport error) {
    buffers_.hand_in(tensor, error, [this](Unit<T>& unit, const T* gradient) {
      const StageScope stage(comm->engine, selecting_, Stage::select);
      const FramePool::Scope scope(comm->engine.frames());
      return run_here(unit.select(gradient)) ? ErrorReport() : report(Wrong::non_finite, unit.non_finite_tensor());
    });
  }

  /// Closes the iteration: no more gradients come.
  void close() {
    if (iteration_.is(IterationState::closed)) return;
    const auto is_awaited = [](const Slot<T>& slot) { return slot.arrival == Arrival::awaited; };
    const bool any = !std::all_of(shared_.slots.begin(), shared_.slots.end(), is_awaited);
    const Wrong wrong = any ? Wrong::missing : Wrong::nothing;
    const bool misnumbered = error_.kind<Wrong>() == Wrong::unknown;  // which explains what is missing
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (!is_awaited(shared_.slots[tensor])) continue;
      const bool may = tensors[tensor].optional;
      if (may) ++shared_.statistics.tensors_skipped;
      if (!may) note(wrong, static_cast<std::int64_t>(tensor));
      const ErrorReport missing = misnumbered ? error_ : report(wrong, static_cast<std::int64_t>(tensor));
      hand_in(static_cast<int>(tensor), may ? ErrorReport() : missing);
    }
    iteration_.on(IterationEvent::close);
    buffers_.close();
  }
  /// Refuses all tensors that have not come, since the owner destroys the object.
  void abandon() {
    const ErrorReport gone = report(Wrong::destroyed, 0);
    error_ = std::max(error_, gone);
    if (iteration_.is(IterationState::closed)) return;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
      if (shared_.slots[tensor].arrival == Arrival::awaited) hand_in(static_cast<int>(tensor), gone);
    iteration_.on(IterationEvent::close);
  }
  /// Returns true if the iteration has ended in an error that a wait has already thrown. Its other waits return at once.
  [[nodiscard]] bool nothing_left() const {
    require_usable();
    return iteration_.is(IterationState::failed);
  }
  /// Closes the iteration for wait() and test(). Returns false if there is no such tensor; the iteration then ends. Other errors of
  /// this rank end it later, when all ranks learn of them: other ranks may have used the updates of earlier tensors.
  [[nodiscard]] bool may_wait(std::int64_t tensor) {
    require_usable();
    begin();
    const bool known = tensor >= 0 && tensor < std::ssize(tensors);
    if (!known) note(Wrong::unknown, tensor);
    close();
    return known;
  }

  /// Drives a call until it has finished. Throws if it broke off. After a timeout, adds the possible reason: an error of this rank,
  /// or what other ranks may not have done.
  void finish(FusedCall& call) {
    if (!call.run.finished) comm->engine.drive(call.run);
    if (!call.run.broken) return;
    iteration_.on(IterationEvent::break_off);
    try {
      if (const std::exception_ptr& error = call.outcome()) std::rethrow_exception(error);
    } catch (const Error& error) {
      if (error.status() != WEIR_ERR_TIMEOUT) throw;
      const std::string why =
          error_ ? fmt::format("on this rank, {}", error_of(error_, config, tensors).what())
                 : "buffers travel once every rank has called ready() or skip() for all of their tensors, or has begun to wait";
      throw Error(error.status(), fmt::format("{}\n{}", error.what(), why));
    }
    require_usable();
  }
  void drive_to_end(detail::AsynchronousCall& call) noexcept {
    if (!call.run.finished) comm->engine.drive_to_end(call.run);
  }

  [[nodiscard]] std::size_t end_words() const { return 1 + adaptation_.words(buffers_.division().size()); }

  /// Waits for all exchanges, then for the agreement on the iteration. Throws the first error of either. `tells`: the caller may
  /// still wait for other tensors after the error.
  void end_iteration(bool tells = true) {
    std::exception_ptr error;
    {
      const WaitClock clock{shared_.statistics.seconds_waited};
      buffers_.finish_phases([this](FusedCall& call) { finish(call); });
      for (const auto& exchange : buffers_.exchanges()) finish(*exchange);
      ending_->words[0] = error_.word();
      if (!adaptation_.settled()) measure();
      ending_->start(end_words());
      finish(*ending_);
      if (const std::exception_ptr& broken = ending_->outcome()) std::rethrow_exception(broken);
      buffers_.for_each_exchange([&](Exchange<T>& exchange) {
        if (!exchange.started()) return;
        if (const std::exception_ptr& outcome = exchange.outcome(); outcome && !error) error = outcome;
      });
    }
    if (!error && ending_->words[0] != 0)
      error = std::make_exception_ptr(AgreedError(error_of(ErrorReport::of_word(ending_->words[0]), config, tensors)));
    iteration_.on(tells && error ? IterationEvent::fail : IterationEvent::end);
    count_statistics();
    if (!adaptation_.settled() && !error) adapt();
    statistics.regroupings = adaptation_.regroupings();
    statistics.settled = adaptation_.settled();
    if (error) std::rethrow_exception(error);
  }

  void measure() {
    exchange_times_.clear();
    for (const auto& exchange : buffers_.exchanges()) exchange_times_.push_back(exchange->seconds());
    adaptation_.write(since_begin(std::max(shared_.last_end, last_ready_)), ready_times_, exchange_times_,
                      ending_->words.data() + 1);
  }

  /// Collective. Called while buffers follow measured times.
  void adapt() {
    std::optional<Division> next;
    Exchanges<T> exchanges;
    try {
      comm->agree("dividing tensors anew", "fused", config.name, [&] {
        next = adaptation_.learn(ending_->words.data() + 1, buffers_.division());
        if (next) exchanges = buffers_.make_exchanges(*next, first_tag);
      });
    } catch (const AgreedError& error) {  // some rank has too little memory
      adaptation_.give_up();
      log(comm->settings.log, LogLevel::warn, "fused '{}' keeps its buffers: {}", config.name, error.what());
      return;
    }
    if (!next) return;
    buffers_.use(std::move(*next), std::move(exchanges));
    log_division();
  }
  void log_division() const noexcept {
    try {
      log(comm->settings.log, LogLevel::info, "rank {}: fused '{}' has {} buffers now; {}", comm->topology.rank(), config.name,
          buffers_.division().size(), adaptation_.text());
    } catch (const std::bad_alloc&) {  // a failed log entry must not fail an iteration that has ended well
    }
  }

  void count_statistics() {
    FusionStatistics& s = shared_.statistics;
    s.iteration = ++state_.iterations;
    buffers_.for_each_exchange([&](const Exchange<T>& exchange) { s.exchanges += exchange.started() ? 1 : 0; });
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
      s.tensors_missing += k_of(config, tensors[tensor]) > 0 && shared_.slots[tensor].delivered == 0 ? 1 : 0;
    s.seconds_select = selecting_.seconds[static_cast<std::size_t>(Stage::select)];
    s.seconds_backward = since_begin(last_ready_);
    s.seconds_total = since_begin(std::max(shared_.last_end, last_ready_));
    statistics = s;
    if (comm->engine.detail_observers().empty()) return;
    std::int64_t bytes = 0;
    for (const FusedTensor& tensor : tensors) bytes += tensor.count * static_cast<std::int64_t>(sizeof(T));
    comm->notify_update({config.name, s.iteration, compression(bytes, s.payload_bytes_sent), [this] { return residual_norm(); }});
    for (Observer* const observer : comm->engine.detail_observers()) observer->tested(selecting_, s.seconds_waited);
  }
  [[nodiscard]] double residual_norm() const {
    double square = -1;
    for (const auto& unit : buffers_.units()) {
      const std::span<const T> residual = std::as_const(unit->contribution).residual();
      if (!residual.empty()) square = std::max(square, 0.0) + sampled_square(residual);
    }
    return square < 0 ? -1 : std::sqrt(square);
  }

  Shared<T> shared_;
  Buffers<T> buffers_;
  Adaptation adaptation_;
  std::string explanation_;
  std::optional<Agreement> ending_;
  HostPointers pointers_;
  State state_;
  const std::string selecting_name_ = config.name + ": select";
  Run selecting_;  // used for its stages only
  // In one iteration:
  Iteration iteration_;
  ErrorReport error_;
  Clock::time_point begun_at_{}, last_ready_{};
  std::vector<double> ready_times_, exchange_times_;
  std::vector<Held> arrays_;  // sorted by address
};

template <class T>
std::shared_ptr<detail::FusedImpl> make_typed(std::shared_ptr<detail::CommunicatorState> comm, FusionSetup setup,
                                              detail::Lease first, std::span<const FusedTensor> tensors) {
  std::shared_ptr<TypedFused<T>> made;
  detail::Leases& leases = comm->leases;
  const std::string name = setup.config.name;
  std::vector<detail::Lease> taken;
  int more = 0;
  comm->agree("fusing tensors", "fused", name, [&] {
    made = std::make_shared<TypedFused<T>>(comm, std::move(setup), tensors);
    more = (made->tags() - 1) / detail::Lease::tags;
    taken.reserve(static_cast<std::size_t>(more) + 1);
    leases.prepare(comm->transport->max_tag(), more);
  });
  taken.push_back(std::move(first));
  for (int i = 0; i < more; ++i) taken.push_back(leases.take());
  comm->agree("making buffers", "fused", name, [&] { made->open(std::move(taken)); });
  return made;
}

}  // namespace

std::shared_ptr<detail::FusedImpl> make_typed_fused(std::shared_ptr<detail::CommunicatorState> comm, FusionSetup setup,
                                                    detail::Lease first, std::span<const FusedTensor> tensors) {
  if (setup.config.type == DataType::float32)
    return make_typed<float>(std::move(comm), std::move(setup), std::move(first), tensors);
  return make_typed<double>(std::move(comm), std::move(setup), std::move(first), tensors);
}

}  // namespace weir::fusion
