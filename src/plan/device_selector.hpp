// device_selector.hpp: compensation and local selection in CUDA memory: what LocalSelector does, as work on a stream.
#pragma once

#include <cstdint>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "collectives/allreduce.hpp"
#include "cuda/runtime.hpp"
#include "kernels/device.hpp"
#include "plan/threshold_estimators.hpp"
#include "plan/threshold_forecast.hpp"

namespace weir::detail {

/// As LocalSelector, with gradients of type G. The host waits once an iteration, for counts: after the pass that compensates and
/// finds the candidates, and the ranking of these.
template <class G, class T>
class DeviceSelector {
 public:
  using Setup = SelectionSetup;
  /// `stream` outlives it.
  DeviceSelector(const Setup& setup, void* stream);

  /// As LocalSelector::select. What is selected is known to the host by number only when it resumes; the entries are there once the
  /// stream gets so far.
  task<bool> select(Channel channel, const G* gradient, T* residual, std::int64_t k, bool refuse_non_finite);
  /// In device memory.
  [[nodiscard]] SparseVector<T> selection() const { return {selected_->indices.data(), selected_->values.data(), count_}; }
  [[nodiscard]] bool rethresholded() const noexcept { return rethresholded_; }

  /// `taken` is in device memory.
  void settle(T* residual, const std::uint32_t* taken, std::int64_t taken_count);
  void roll_back(const G* gradient, T* residual);

  void reset();
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// With scratch for arrays of n elements.
  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_, scratch_.data(), device_}; }

 private:
  using Found = kernels::cuda::Found;
  struct Entries {
    cuda::DeviceArray<std::uint32_t> indices;
    cuda::DeviceArray<T> values;
    explicit Entries(std::int64_t capacity) : indices(capacity), values(capacity) {}
    [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
  };
  /// What the device tells the host.
  struct Report {
    Found found;
    KthKey<T> kth;
    std::int64_t kept;
    Moments<T> moments;          // of the compensated gradient, mode gaussian
    Exceedances<T> exceedances;  // modes mstopk and sidco: of all of it, or beyond the threshold that was asked for
  };

  task<void> report(Channel channel);
  template <class X>
  task<Key<T>> sampled_key(Channel channel, const X* gradient, const T* residual, std::int64_t k, bool safe);
  void rank_candidates(std::int64_t k);
  [[nodiscard]] kernels::cuda::Extent everything() const { return {setup_.count, nullptr}; }
  [[nodiscard]] kernels::cuda::Extent all_candidates() const { return {count_, nullptr}; }
  task<void> select_exactly(Channel channel, const G* gradient, T* residual, std::int64_t k);
  template <class X>
  task<void> select_anew(Channel channel, const X* x, std::int64_t k);
  task<void> select_estimated(Channel channel, const G* gradient, T* residual, std::int64_t k);
  template <class X>
  task<void> collect_candidates(Channel channel, const X* x, std::int64_t wanted);
  task<void> select_mstopk(Channel channel, const G* gradient, T* residual, std::int64_t k);
  task<Key<T>> sidco_key(Channel channel, const G* gradient, T* residual, std::int64_t k);
  [[nodiscard]] Candidates<T> candidates() const { return {on_host_values_.data(), count_, floor_}; }
  void trim(T* residual, std::int64_t k);
  void put_back(T* residual);

  Setup setup_;
  void* stream_;
  int device_ = cuda::current_device();
  std::int64_t capacity_;
  cuda::DeviceArray<std::byte> scratch_;
  Entries candidates_, kept_;
  cuda::DeviceArray<T> sample_;
  cuda::DeviceArray<Report> on_device_;
  cuda::PinnedArray<Report> on_host_;
  cuda::PinnedArray<T> on_host_values_;  // of the candidates, where thresholds are looked for among these
  cuda::Event reported_;
  const Entries* selected_ = &candidates_;
  std::int64_t count_ = 0;
  Key<T> floor_ = 1;     // the candidates are all entries with at least this key
  Key<T> keep_old_ = 0;  // the residual holds the old value of selected entries from here on
  bool rethresholded_ = false;
  std::int64_t iteration_ = 0;
  std::int64_t samples_ = 0;  // taken so far, each another one
  Key<T> threshold_ = 0;      // 0: not known
  ThresholdForecast<T> forecast_;
  SidcoStages sidco_;
};

}  // namespace weir::detail
