// Ok-Topk, the O(k) sparse allreduce: Li and Hoefler, PPoPP 2022, Algorithm 1. Step numbers below are ours; the paper's lines are
// named.
//
// Beyond the paper: boundaries that turn out unbalanced are re-cut at once, the global threshold comes from small histograms, mode
// `exact` delivers exactly Topk(sum Topk(G)), sums do not depend on region boundaries, and the volume bound of 6 k words holds on
// any input.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "codec/coo.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/merge_tree.hpp"
#include "collectives/regions.hpp"
#include "kernels/kernels.hpp"

namespace weir {
namespace {

template <class T>
class OkTopk final : public SparseAllreduce<T> {
 public:
  explicit OkTopk(const AllreduceProblem& problem)
      : problem_(problem),
        ranks_(problem.ranks),
        result_capacity_(std::min(problem.count, problem.largest_local)),
        tree_(ranks_, region_capacity(problem)),
        boundaries_(size(1)),
        own_counts_(size()),
        words_(2 * (ranks_ + 1)),
        cut_scratch_(std::max({recut_scratch(ranks_), kth_scratch, std::int64_t{2} * ranks_})),
        out_counts_(size()),
        in_counts_(size()),
        sizes_(size()),
        sizes_scratch_(size()),
        selected_counts_(size()),
        prefix_(2 * size() + 1),
        held_(size(1)),
        offset_(size(1)),
        requests_(2 * size()),
        outgoing_(coo::slot_bytes<T>(std::max(problem.largest_local, result_capacity_)) + 8 * ranks_),
        staging_(coo::slot_bytes<T>(result_capacity_ / ranks_ + 1) + 8 * ranks_),
        result_indices_(result_capacity_),
        result_values_(result_capacity_) {
    reset();
  }

  void reset() override {
    iteration_ = 0;
    global_key_ = 0;
    for (int j = 0; j <= ranks_; ++j) boundaries_[at(j)] = part_begin(static_cast<std::uint64_t>(problem_.count), j, ranks_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return tree_.memory_bytes() + outgoing_.bytes() + staging_.bytes() + result_indices_.bytes() + result_values_.bytes() +
           words_.bytes() + cut_scratch_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, std::uint64_t fault) override {
    SparseOutcome<T> outcome;
    const std::int64_t iteration = iteration_++;

    // 1. region boundaries, every tau iterations (lines 5-7)
    if (iteration % problem_.config.boundary_period == 0) {
      channel.step("1. average boundaries");
      co_await average_boundaries(channel, local.index_span(), n(), boundaries_, cut_scratch_.data());
    }

    // 2. announce: faults and region sizes; unbalanced regions are re-cut at once
    channel.step("2. announce region sizes");
    count_regions(local.index_span(), boundaries_, own_counts_.data());
    words_[0] = fault;
    std::copy(own_counts_.begin(), own_counts_.end(), words_.data() + 1);
    co_await allreduce_control(channel, words_.data(), ranks_ + 1, 1, words_.data() + ranks_ + 1);
    outcome.fault = words_[0];
    if (outcome.fault != 0) co_return outcome;
    const std::uint64_t* const region_totals = words_.data() + 1;
    const std::uint64_t total = std::accumulate(region_totals, region_totals + ranks_, std::uint64_t{0});
    if (total == 0) co_return outcome;
    if (*std::max_element(region_totals, region_totals + ranks_) > balanced_region_limit(total / at(ranks_), k)) {
      channel.step("2. re-cut regions");
      co_await recut_boundaries(channel, local.index_span(), total, n(), boundaries_, cut_scratch_.data());
      count_regions(local.index_span(), boundaries_, own_counts_.data());
      outcome.recut = true;
    }

    // 3. split and reduce (line 8)
    co_await split_and_reduce(channel, local);

    // 4. global threshold (lines 9-12) and everybody's share of the selection
    co_await select_global(channel, k, iteration, outcome);

    // 5. balance and allgatherv (line 13)
    outcome.balanced = must_balance();
    if (outcome.balanced) {
      co_await balance(channel);
    } else {
      lay_out_blocks([this](int r) { return selected_counts_[at(r)]; });
      coo::encode(selected_.indices, selected_.values, selected_.count, 0, gathered());
    }
    channel.step("5. allgatherv");
    co_await allgatherv(channel, offset_, gathered());
    outcome.update = decode(outcome.balanced);
    co_return outcome;
  }

 private:
  struct Sizes {
    std::uint32_t above = 0;       // entries of my region above the global cut
    std::uint32_t equal = 0;       // and exactly on it
    std::uint32_t split_sent = 0;  // entries I sent in split-and-reduce
  };

  [[nodiscard]] std::size_t size(int more = 0) const { return static_cast<std::size_t>(ranks_ + more); }
  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] std::uint64_t n() const { return static_cast<std::uint64_t>(problem_.count); }
  [[nodiscard]] bool reuse() const { return problem_.config.threshold == Threshold::reuse; }

  // Above this a region is re-cut. Relative to the smaller of the mean and k, so that what a rank receives stays below 6 k words in
  // mode `reuse` too, where ranks contribute up to 1.25 k.
  [[nodiscard]] std::uint64_t balanced_region_limit(std::uint64_t mean, std::int64_t k) const {
    const std::uint64_t base = std::min(mean, static_cast<std::uint64_t>(k));
    return base + base / 2 + at(ranks_);
  }

  // Regions within balanced_region_limit, and re-cut ones, which exceed a mean of at most 1.25 k by an eighth.
  [[nodiscard]] static std::int64_t region_capacity(const AllreduceProblem& problem) {
    const std::int64_t everything = problem.largest_local * problem.ranks;
    return std::min(everything, problem.largest_k + problem.largest_k / 2 + 2 * problem.ranks + 2);
  }

  /// Memory of the update on its way: the reduced region's, which is spent once the selection is out of it.
  [[nodiscard]] std::byte* gathered() { return reinterpret_cast<std::byte*>(tree_.root().values); }

  task<void> split_and_reduce(Channel channel, SparseVector<T> local) {
    const int me = channel.rank();
    channel.step("3. split and reduce: sizes");
    for (int j = 0; j < ranks_; ++j) out_counts_[at(j)] = static_cast<std::uint32_t>(own_counts_[at(j)]);
    in_counts_[at(me)] = out_counts_[at(me)];
    for (int s = 1; s < ranks_; ++s) {
      const int to = (me + s) % ranks_, from = (me - s + ranks_) % ranks_;
      requests_[at(2 * s - 2)] = channel.receive(&in_counts_[at(from)], sizeof(std::uint32_t), from, Traffic::control);
      requests_[at(2 * s - 1)] = channel.send(&out_counts_[at(to)], sizeof(std::uint32_t), to, Traffic::control);
    }
    co_await channel.done(std::span(requests_).first(at(2 * ranks_ - 2)));
    tree_.begin(in_counts_.data());
    if (tree_.total() > region_capacity(problem_))
      fail(WEIR_ERR_INTERNAL, "a region of {} entries exceeds the {} planned", tree_.total(), region_capacity(problem_));

    // Destinations rotate, so that no rank is everyone's target at once; a window of exchanges is in flight, and what has
    // arrived is reduced meanwhile.
    channel.step("3. split and reduce");
    held_[0] = 0;
    for (int j = 0; j < ranks_; ++j) held_[at(j) + 1] = held_[at(j)] + out_counts_[at(j)];
    std::int64_t out_offset = 0;
    const int window = problem_.config.window;
    for (int s = 0; s < ranks_ + window; ++s) {
      const int to = (me + s) % ranks_, from = (me - s + 2 * ranks_) % ranks_;
      if (s == 0) {
        encode_region(local, me, tree_.leaf(me));
        if (in_counts_[at(me)] > 0) tree_.arrived(me);
      } else if (s < ranks_) {
        const std::int64_t in = in_counts_[at(from)], out = out_counts_[at(to)];
        requests_[at(2 * s)] =
            in > 0 ? channel.receive(tree_.leaf(from), coo::message_bytes<T>(in), from, Traffic::payload) : Request{};
        encode_region(local, to, outgoing_.data() + out_offset);
        requests_[at(2 * s + 1)] =
            out > 0 ? channel.send(outgoing_.data() + out_offset, coo::message_bytes<T>(out), to, Traffic::payload) : Request{};
        out_offset += coo::slot_bytes<T>(out);
      }
      const int finished = s - window;
      if (finished < 1 || finished >= ranks_) continue;
      co_await channel.done(requests_[at(2 * finished)]);
      const int sender = (me - finished + ranks_) % ranks_;
      if (in_counts_[at(sender)] > 0) tree_.arrived(sender);
      co_await channel.done(requests_[at(2 * finished + 1)]);
    }
  }

  void encode_region(SparseVector<T> local, int region, std::byte* memory) {
    const std::uint64_t first = held_[at(region)];
    coo::encode(local.indices + first, local.values + first, out_counts_[at(region)],
                static_cast<std::uint32_t>(boundaries_[at(region)]), memory);
  }

  task<void> select_global(Channel channel, std::int64_t k, std::int64_t iteration, SparseOutcome<T>& outcome) {
    const coo::Segment<T> reduced = tree_.root();
    const bool reevaluate = !reuse() || global_key_ == 0 || iteration % problem_.config.threshold_period == 0;
    GlobalCut<T> cut{static_cast<Key<T>>(global_key_ - 1), 0};
    if (reevaluate) cut = co_await find_cut(channel, reduced, k, outcome);
    co_await share_sizes(channel, reduced, cut);

    if (reuse()) {
      const auto target = static_cast<std::uint64_t>(k);
      const std::uint64_t selected = std::accumulate(selected_counts_.begin(), selected_counts_.end(), std::uint64_t{0});
      const bool too_few = 5 * selected < 4 * target && cut.key > 0;  // a cut at 0 takes all there is
      if (!reevaluate && (too_few || 4 * selected > 5 * target)) {
        cut = co_await find_cut(channel, reduced, k, outcome);
        co_await share_sizes(channel, reduced, cut);
      }
      // Only where ranks contributed more than k and the sum is skewed as well: deliver a little less rather than send more than 6
      // k words.
      const std::uint64_t budget = 3 * static_cast<std::uint64_t>(k);
      const std::uint64_t split = most_split_sent();
      if (ranks_ > 1 &&
          split + std::min(allgatherv_max_sent(selected_counts_, prefix_), balanced_max_sent(selected_counts_)) > budget) {
        const std::uint64_t reduced_k = (budget - split) * at(ranks_) / (2 * at(ranks_ - 1));
        cut = co_await find_cut(channel, reduced, std::min(k, std::max<std::int64_t>(1, static_cast<std::int64_t>(reduced_k))),
                                outcome);
        co_await share_sizes(channel, reduced, cut);
      }
    }

    selected_ = tree_.spare();
    const auto mine = static_cast<std::int64_t>(selected_counts_[at(channel.rank())]);
    const std::int64_t ties = mine - sizes_[at(channel.rank())].above;
    selected_.count = kernels::host::select_ties(reduced.values, reduced.count, cut.key, ties, selected_.indices, selected_.values);
    for (std::int64_t i = 0; i < selected_.count; ++i) selected_.indices[i] = reduced.indices[selected_.indices[i]];
  }

  task<GlobalCut<T>> find_cut(Channel channel, coo::Segment<T> reduced, std::int64_t k, SparseOutcome<T>& outcome) {
    channel.step("4. global threshold");
    const GlobalCut<T> cut = co_await global_kth<T>(channel, reduced.values, reduced.count, k, global_key_, cut_scratch_.data());
    global_key_ = static_cast<Key<T>>(cut.key + (cut.ties == 0 ? 1 : 0));
    outcome.rethresholded = reuse();
    co_return cut;
  }

  /// selected_counts_[r]: how many entries of region r the cut selects. Ties go to the lowest ranks, whose regions have the lowest
  /// indices.
  task<void> share_sizes(Channel channel, coo::Segment<T> reduced, GlobalCut<T> cut) {
    channel.step("4. global sizes");
    const int me = channel.rank();
    Sizes mine;
    for (std::int64_t i = 0; i < reduced.count; ++i) {
      const Key<T> key = key_of(reduced.values[i]);
      mine.above += key > cut.key;
      mine.equal += key == cut.key;
    }
    mine.split_sent = static_cast<std::uint32_t>(held_[at(ranks_)] - out_counts_[at(me)]);
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&mine), sizeof(Sizes),
                               reinterpret_cast<std::byte*>(sizes_.data()), reinterpret_cast<std::byte*>(sizes_scratch_.data()));
    std::uint64_t ties = cut.ties;
    for (int r = 0; r < ranks_; ++r) {
      const std::uint64_t taken = std::min<std::uint64_t>(ties, sizes_[at(r)].equal);
      selected_counts_[at(r)] = sizes_[at(r)].above + taken;
      ties -= taken;
    }
  }

  [[nodiscard]] std::uint64_t most_split_sent() const {
    return std::max_element(sizes_.begin(), sizes_.end(),
                            [](const Sizes& a, const Sizes& b) { return a.split_sent < b.split_sent; })
        ->split_sent;
  }

  // The paper's trigger (largest above 4 x the mean), and the volume bound, which skew below that trigger would break for many
  // ranks.
  [[nodiscard]] bool must_balance() {
    const std::uint64_t selected = std::accumulate(selected_counts_.begin(), selected_counts_.end(), std::uint64_t{0});
    const std::uint64_t largest = *std::max_element(selected_counts_.begin(), selected_counts_.end());
    if (static_cast<double>(largest) * ranks_ > problem_.config.balance_trigger * static_cast<double>(selected)) return true;
    const std::uint64_t unbalanced = allgatherv_max_sent(selected_counts_, prefix_);
    return unbalanced * at(ranks_) > 2 * selected * at(ranks_ - 1) && unbalanced > balanced_max_sent(selected_counts_);
  }

  /// offset_[i]: where the block of rank (me + i) mod P begins in gathered().
  template <class Count>
  void lay_out_blocks(Count count) {
    const int me = me_;
    offset_[0] = 0;
    for (int i = 0; i < ranks_; ++i)
      offset_[at(i) + 1] = offset_[at(i)] + coo::slot_bytes<T>(static_cast<std::int64_t>(count((me + i) % ranks_)));
  }

  task<void> balance(Channel channel) {
    channel.step("5. balance");
    const int me = channel.rank();
    std::exclusive_scan(selected_counts_.begin(), selected_counts_.end(), held_.begin(), std::uint64_t{0});
    const std::uint64_t total = held_[at(ranks_ - 1)] + selected_counts_[at(ranks_ - 1)];
    held_[at(ranks_)] = total;
    lay_out_blocks([&](int r) { return part_begin(total, r + 1, ranks_) - part_begin(total, r, ranks_); });
    const auto overlap = [&](int holder, int owner) {
      const std::uint64_t begin = std::max(held_[at(holder)], part_begin(total, owner, ranks_));
      const std::uint64_t end = std::min(held_[at(holder) + 1], part_begin(total, owner + 1, ranks_));
      return std::pair(begin, end > begin ? static_cast<std::int64_t>(end - begin) : 0);
    };

    std::int64_t in_offset = 0, out_offset = 0;
    std::size_t posted = 0;
    for (int r = 0; r < ranks_; ++r) {
      if (r == me) continue;
      if (const std::int64_t in = overlap(r, me).second; in > 0) {
        requests_[posted++] = channel.receive(staging_.data() + in_offset, coo::message_bytes<T>(in), r, Traffic::payload);
        in_offset += coo::slot_bytes<T>(in);
      }
      if (const auto [begin, out] = overlap(me, r); out > 0) {
        const std::uint64_t first = begin - held_[at(me)];
        coo::encode(selected_.indices + first, selected_.values + first, out, 0, outgoing_.data() + out_offset);
        requests_[posted++] = channel.send(outgoing_.data() + out_offset, coo::message_bytes<T>(out), r, Traffic::payload);
        out_offset += coo::slot_bytes<T>(out);
      }
    }
    co_await channel.done(std::span(requests_).first(posted));

    const std::uint64_t target = part_begin(total, me, ranks_);
    const coo::Segment<T> block = coo::view<T>(gathered(), static_cast<std::int64_t>(part_begin(total, me + 1, ranks_) - target));
    in_offset = 0;
    for (int r = 0; r < ranks_; ++r) {
      const auto [begin, count] = overlap(r, me);
      if (count == 0) continue;
      coo::Segment<T> piece = selected_;
      if (r == me) {
        piece.values += begin - held_[at(me)];
        piece.indices += begin - held_[at(me)];
      } else {
        piece = coo::view<T>(staging_.data() + in_offset, count);
        in_offset += coo::slot_bytes<T>(count);
      }
      std::copy_n(piece.values, count, block.values + (begin - target));
      std::copy_n(piece.indices, count, block.indices + (begin - target));
    }
  }

  /// Blocks in rank order, each cut at region ends, where the base of the relative indices changes.
  SparseVector<T> decode(bool balanced) {
    std::exclusive_scan(selected_counts_.begin(), selected_counts_.end(), held_.begin(), std::uint64_t{0});
    const std::uint64_t total = held_[at(ranks_ - 1)] + selected_counts_[at(ranks_ - 1)];
    held_[at(ranks_)] = total;
    const T divisor = static_cast<T>(problem_.divisor);
    int region = 0;
    for (int r = 0; r < ranks_; ++r) {
      const std::uint64_t begin = balanced ? part_begin(total, r, ranks_) : held_[at(r)];
      const std::uint64_t end = balanced ? part_begin(total, r + 1, ranks_) : held_[at(r) + 1];
      const coo::Segment<T> block =
          coo::view<T>(gathered() + offset_[at((r - me_ + ranks_) % ranks_)], static_cast<std::int64_t>(end - begin));
      for (std::uint64_t from = begin; from < end;) {
        while (held_[at(region) + 1] <= from) ++region;
        const std::uint64_t to = std::min(end, held_[at(region) + 1]);
        const auto base = static_cast<std::uint32_t>(boundaries_[at(region)]);
        for (std::uint64_t i = from; i < to; ++i) {
          result_indices_[static_cast<std::int64_t>(i)] = block.indices[i - begin] + base;
          result_values_[static_cast<std::int64_t>(i)] = block.values[i - begin] / divisor;
        }
        from = to;
      }
    }
    return {result_indices_.data(), result_values_.data(), static_cast<std::int64_t>(total)};
  }

  AllreduceProblem problem_;
  int ranks_;
  int me_ = problem_.rank;
  std::int64_t result_capacity_;
  std::int64_t iteration_ = 0;
  Key<T> global_key_ = 0;  // smallest key that the last cut selected; 0: none yet
  MergeTree<T> tree_;
  Boundaries boundaries_;
  std::vector<std::uint64_t> own_counts_;  // my entries by region
  Buffer<std::uint64_t> words_;            // the announcement and its scratch
  Buffer<std::uint64_t> cut_scratch_;
  std::vector<std::uint32_t> out_counts_, in_counts_;
  std::vector<Sizes> sizes_, sizes_scratch_;
  std::vector<std::uint64_t> selected_counts_;  // entries of the update by region
  std::vector<std::uint64_t> prefix_;
  std::vector<std::uint64_t> held_;  // prefix sums of the counts of the step at hand
  std::vector<std::int64_t> offset_;
  std::vector<Request> requests_;
  Buffer<std::byte> outgoing_;
  Buffer<std::byte> staging_;
  coo::Segment<T> selected_;
  Buffer<std::uint32_t> result_indices_;
  Buffer<T> result_values_;
};

}  // namespace

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const AllreduceProblem& problem) {
  return std::make_unique<OkTopk<T>>(problem);
}
template std::unique_ptr<SparseAllreduce<float>> make_oktopk(const AllreduceProblem&);
template std::unique_ptr<SparseAllreduce<double>> make_oktopk(const AllreduceProblem&);

}  // namespace weir
