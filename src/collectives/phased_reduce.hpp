// phased_reduce.hpp: split and reduce in phases, one for each digit of a rank's number: region j of all ranks' sparse vectors is
// summed at rank j, as in split_reduce.hpp, with the same bits.
//
// In a phase, ranks whose numbers differ only in one digit exchange entries and sum them. Each sends the other what it holds of the
// regions whose number has the other's digit there. Digits go from the lowest up, and radices are powers of two, so that partial
// sums are nodes of the tree over the ranks. Let Q be the largest power of two up to P. A rank from Q on hands its entries to the
// rank Q below. That rank carries them as a second vector, since the tree adds the two only at its root, and returns the region of
// the upper rank.
//
// A rank sends a message to each of its radix - 1 partners in a phase, and one more if it carries for a rank beyond Q. A message
// with more than its share of the entries that there is room for takes two. A rank holds at most phased_load() entries after a
// phase, or carries() returns false. It sends at most (phases + 1) * phased_load() entries in all.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "collectives/host_space.hpp"
#include "collectives/merge_tree.hpp"
#include "collectives/regions.hpp"

namespace weir {

/// Returns the most entries that a rank holds after a phase.
[[nodiscard]] constexpr std::int64_t phased_load(std::int64_t k, int ranks) { return 4 * k + 2 * ranks; }

/// Returns the number of entries for which a rank has memory: what it holds, sorted, summed and selected, and messages. If there
/// are ranks beyond the largest power of two, it includes a second vector.
[[nodiscard]] constexpr std::int64_t phased_room(std::int64_t k, int ranks) {
  return (std::has_single_bit(static_cast<unsigned>(ranks)) ? 7 : 11) * phased_load(k, ranks);
}

template <class T>
class PhasedReduce {
 public:
  struct Setup {
    int ranks = 1;
    int radix = 2;  ///< a power of two
    std::int64_t largest_k = 0;
    wire::Wire wire{};
  };
  /// `space` must outlive the object.
  PhasedReduce(HostSpace<T>& space, const Setup& setup)
      : setup_(setup),
        space_(space),
        holders_(static_cast<int>(std::bit_floor(static_cast<unsigned>(setup.ranks)))),
        most_(phased_load(setup.largest_k, setup.ranks)),
        cuts_(at(setup.ranks + 1)),
        counts_(at(setup.ranks)),
        class_sums_(at(setup.ranks)),
        selected_(coo::block_bytes<T>(most_ + select_padding)) {
    for (int block = 1; block < holders_; block *= digits_.back()) {
      digits_.push_back(std::min(setup.radix, holders_ / block));
      partners_ = std::max(partners_, digits_.back());
    }
    for (int v = 0; v < (folds() ? 2 : 1); ++v)
      vectors_.push_back({MergeTree<T, HostSpace<T>>(space, partners_, most_),
                          Buffer<std::byte>(coo::block_bytes<T>(most_)),
                          {},
                          std::vector<std::int64_t>(at(partners_ + 1)),
                          std::vector<std::uint32_t>(at(partners_))});
    if (folds()) sum_ = Buffer<std::byte>(coo::block_bytes<T>(most_));
    const std::int64_t all_bytes = coo::block_bytes<T>(most_) + partners_ * message_overhead;
    open_bytes_ = std::min(Transport::longest_open_message, coo::block_bytes<T>(most_ / partners_) + message_overhead);
    open_ = Buffer<std::byte>(partners_ * open_bytes_);
    whole_ = Buffer<std::byte>(all_bytes);
    outgoing_ = Buffer<std::byte>(all_bytes);
    arrived_.resize(at(partners_));
    receives_.resize(at(partners_));
    sends_.resize(at(2 * partners_));
  }

  /// Returns how many words largest_parts() writes.
  [[nodiscard]] int phases() const { return static_cast<int>(digits_.size()); }

  /// Sets parts[i] to the most of this rank's entries that one rank gets by the end of phase i. `counts[j]` of them lie in region
  /// j.
  void largest_parts(const std::uint64_t* counts, std::uint64_t* parts) {
    int block = 1;
    for (int phase = 0; phase < phases(); ++phase) {
      block *= digits_[at(phase)];
      parts[phase] = largest_class(counts, block);
    }
  }
  /// Returns true if no rank holds more than phased_load() entries. `parts`: the maximum over all ranks of largest_parts();
  /// `totals`: all ranks' entries in each region.
  [[nodiscard]] bool carries(std::int64_t k, const std::uint64_t* parts, const std::uint64_t* totals) {
    const auto limit = static_cast<std::uint64_t>(phased_load(k, setup_.ranks));
    int block = 1;
    for (int phase = 0; phase < phases(); ++phase) {
      block *= digits_[at(phase)];
      const std::uint64_t of_block = static_cast<std::uint64_t>((folds() ? 2 : 1) * block) * parts[phase];
      if (of_block > limit && largest_class(totals, block) > limit) return false;
    }
    return true;
  }

  /// Runs the phases. After that reduced() is the sum of my region.
  task<void> run(Channel channel, SparseVector<T> local, const Boundaries& boundaries) {
    const StageScope stage = channel.stage(Stage::split_reduce);
    boundaries_ = &boundaries;
    const int me = channel.rank();
    if (me >= holders_) {
      co_await hand_over(channel, me - holders_, {local.indices, local.values, local.count}, 0, boundaries.back());
      reduced_ = co_await take_over(channel, me - holders_, size_of(me));
      co_return;
    }
    const bool has_passenger = me + holders_ < setup_.ranks;
    vectors_[0].held = {local.indices, local.values, local.count};
    if (folds()) vectors_[1].held = {};
    if (has_passenger) vectors_[1].held = seen(co_await take_over(channel, me + holders_, boundaries.back()));
    int block = 1;
    for (const int digits : digits_) {
      co_await exchange(channel, digits, block);
      block *= digits;
    }
    reduced_ = sum_of_vectors();
    if (!has_passenger) co_return;
    // The entries after my region belong to the rank that I carry for.
    const std::uint64_t mine = size_of(me);
    const std::int64_t count = std::lower_bound(reduced_.indices, reduced_.indices + reduced_.count, mine) - reduced_.indices;
    co_await hand_over(channel, me + holders_, {reduced_.indices + count, reduced_.values + count, reduced_.count - count},
                       static_cast<std::uint32_t>(mine), size_of(me + holders_));
    reduced_.count = count;
  }

  /// Returns the sum, with indices relative to my region. Valid until the next run.
  [[nodiscard]] coo::Segment<T> reduced() const { return reduced_; }
  /// Returns other memory with room for as many entries and select_padding more.
  [[nodiscard]] coo::Segment<T> spare() { return coo::view<T>(selected_.data(), most_ + select_padding); }
  [[nodiscard]] std::int64_t memory_bytes() const {
    std::int64_t bytes = selected_.bytes() + sum_.bytes() + open_.bytes() + whole_.bytes() + outgoing_.bytes();
    for (const Vector& vector : vectors_) bytes += vector.tree.memory_bytes() + vector.parts.bytes();
    return bytes;
  }

 private:
  /// What a rank holds, in the coordinates of its class: the regions j with j mod block = rank mod block, one after another.
  struct Vector {
    MergeTree<T, HostSpace<T>> tree;
    Buffer<std::byte> parts;  // what is held, ordered by the digit that it goes to
    SparseVector<T> held;
    std::vector<std::int64_t> first;    // entries before the part of each digit
    std::vector<std::uint32_t> counts;  // entries received from each digit
  };
  /// Precedes the entries of a message.
  struct Header {
    std::array<std::uint32_t, 2> counts{};  ///< of either vector
  };
  static constexpr std::int64_t message_overhead = sizeof(Header) + 16;

  [[nodiscard]] static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] bool folds() const { return holders_ < setup_.ranks; }
  [[nodiscard]] std::uint64_t size_of(int region) const { return (*boundaries_)[at(region + 1)] - (*boundaries_)[at(region)]; }
  [[nodiscard]] static SparseVector<T> seen(coo::Segment<T> s) { return {s.indices, s.values, s.count}; }

  [[nodiscard]] std::uint64_t largest_class(const std::uint64_t* of_regions, int block) {
    std::fill_n(class_sums_.begin(), block, std::uint64_t{0});
    for (int j = 0; j < setup_.ranks; ++j) class_sums_[at(j % block)] += of_regions[j];
    return *std::max_element(class_sums_.begin(), class_sums_.begin() + block);
  }
  /// Returns the number of elements of the regions j = first, first + block, ...
  [[nodiscard]] std::uint64_t class_size(int first, int block) const {
    std::uint64_t size = 0;
    for (int j = first; j < setup_.ranks; j += block) size += size_of(j);
    return size;
  }

  [[nodiscard]] std::int64_t message_bytes(const Header& header, std::uint64_t range) const {
    return rest_begin(header, range) + wire::message_bytes<T>(setup_.wire, header.counts[1], range);
  }
  /// Returns where the entries of the second vector begin.
  [[nodiscard]] std::int64_t rest_begin(const Header& header, std::uint64_t range) const {
    return static_cast<std::int64_t>(sizeof(Header)) + wire::slot_bytes<T>(setup_.wire, header.counts[0], range);
  }

  /// Sends a message in one piece, or in two if it is longer than messages of open size may be. `requests` holds two.
  static void send(Channel channel, const std::byte* message, std::int64_t bytes, std::int64_t open_bytes, int to,
                   Request* requests) {
    const std::int64_t open = std::min(bytes, open_bytes);
    requests[0] = channel.send_open(message, open, to, Traffic::payload);
    requests[1] = bytes > open ? channel.send(message + open, bytes - open, to, Traffic::payload) : Request{};
  }

  /// Sends a message of one vector to a rank that takes it over.
  task<void> hand_over(Channel channel, int to, SparseVector<T> entries, std::uint32_t base, std::uint64_t range) {
    const Header header{{static_cast<std::uint32_t>(entries.count), 0}};
    std::memcpy(outgoing_.data(), &header, sizeof header);
    encode(entries, base, range, outgoing_.data() + sizeof header);
    send(channel, outgoing_.data(), message_bytes(header, range), open_bytes_of_one(), to, sends_.data());
    co_await channel.done(std::span(sends_).first(2));
  }
  task<coo::Segment<T>> take_over(Channel channel, int from, std::uint64_t range) {
    receives_[0] = channel.receive_up_to(open_.data(), open_bytes_of_one(), from);
    co_await channel.done(receives_[0]);
    std::int64_t used = 0;
    co_await complete(channel, 0, open_bytes_of_one(), from, range, used);
    const Header header = header_of(arrived_[0]);
    coo::Segment<T> entries = coo::view<T>(sum_.data(), header.counts[0]);
    decode(arrived_[0], header, 0, range, entries);
    co_return entries;
  }

  /// Returns the open bytes of a message that has all slots to itself.
  [[nodiscard]] std::int64_t open_bytes_of_one() const { return std::min(Transport::longest_open_message, open_.bytes()); }

  /// Sets arrived_[slot] to the message that begins in this open slot. A longer message is assembled in whole_, of which `used`
  /// bytes are taken.
  task<void> complete(Channel channel, int slot, std::int64_t open_bytes, int from, std::uint64_t range, std::int64_t& used) {
    const std::byte* const open = open_.data() + slot * open_bytes;
    const std::int64_t bytes = message_bytes(header_of(open), range);
    channel.note_received(std::min(bytes, open_bytes), from, Traffic::payload);
    arrived_[at(slot)] = open;
    if (bytes <= open_bytes) co_return;
    if (used + bytes > whole_.bytes()) fail(WEIR_ERR_INTERNAL, "a phase brings more than the {} bytes planned", whole_.bytes());
    std::byte* const place = whole_.data() + used;
    used += (bytes + 7) / 8 * 8;
    arrived_[at(slot)] = place;
    std::memcpy(place, open, at(open_bytes));
    const Request rest = channel.receive(place + open_bytes, bytes - open_bytes, from, Traffic::payload);
    co_await channel.done(rest);
  }
  [[nodiscard]] static Header header_of(const std::byte* message) {
    Header header;
    std::memcpy(&header, message, sizeof header);
    return header;
  }
  void encode(SparseVector<T> entries, std::uint32_t base, std::uint64_t range, std::byte* out) {
    space_.encode(setup_.wire, entries.indices, entries.values, entries.count, base, range, {out, out});
  }
  /// Decodes the entries of vector v.
  void decode(const std::byte* message, const Header& header, int v, std::uint64_t range, coo::Segment<T> to) const {
    const std::int64_t count = header.counts[at(v)];
    if (count == 0) return;
    space_.decode(setup_.wire, message + (v == 0 ? static_cast<std::int64_t>(sizeof header) : rest_begin(header, range)),
                  wire::message_bytes<T>(setup_.wire, count, range), count, 0, range, to.indices, to.values);
  }

  /// Runs one phase: class (rank mod block) becomes class (rank mod block * digits).
  task<void> exchange(Channel channel, int digits, int block) {
    const int me = channel.rank(), digit = me / block % digits, rest_of_me = me % block;
    const auto peer = [&](int d) { return me + (d - digit) * block; };
    for (int d = 0; d < digits; ++d)
      if (d != digit) receives_[at(d)] = channel.receive_up_to(open_.data() + d * open_bytes_, open_bytes_, peer(d));
    receives_[at(digit)] = {};

    for (Vector& vector : vectors_) sort_by_digit(vector, digits, block, rest_of_me);
    std::int64_t used = 0;
    std::fill(sends_.begin(), sends_.end(), Request{});
    for (int s = 1; s < digits; ++s) {
      const int d = digit ^ s;
      const std::uint64_t range = class_size(rest_of_me + d * block, block * digits);
      std::byte* const message = outgoing_.data() + used;
      const std::int64_t bytes = encode(d, range, message);
      send(channel, message, bytes, open_bytes_, peer(d), &sends_[at(2 * d)]);
      used += (bytes + 7) / 8 * 8;
    }

    const std::uint64_t range = class_size(rest_of_me + digit * block, block * digits);
    co_await channel.done(std::span(receives_).first(at(digits)));
    std::int64_t whole = 0;
    for (int d = 0; d < digits; ++d)
      if (d != digit) co_await complete(channel, d, open_bytes_, peer(d), range, whole);

    for (std::size_t v = 0; v < vectors_.size(); ++v) {
      Vector& vector = vectors_[v];
      std::fill(vector.counts.begin(), vector.counts.end(), 0U);
      for (int d = 0; d < digits; ++d)
        vector.counts[at(d)] =
            d == digit ? static_cast<std::uint32_t>(part_of(vector, d).count) : header_of(arrived_[at(d)]).counts[v];
      vector.tree.begin(vector.counts.data());
      if (vector.tree.total() > most_)
        fail(WEIR_ERR_INTERNAL, "a phase brings {} entries, more than the {} planned", vector.tree.total(), most_);
      for (int d = 0; d < digits; ++d) {
        if (vector.counts[at(d)] == 0) continue;
        if (d == digit)
          static_cast<void>(space_.copy(part_of(vector, d), vector.tree.leaf(d)));
        else
          decode(arrived_[at(d)], header_of(arrived_[at(d)]), static_cast<int>(v), range, vector.tree.leaf(d));
        vector.tree.arrived(d);
      }
      vector.held = seen(vector.tree.root());
    }
    co_await channel.done(std::span(sends_).first(at(2 * digits)));
  }

  [[nodiscard]] coo::Segment<T> part_of(Vector& vector, int d) {
    coo::Segment<T> part = coo::view<T>(vector.parts.data(), most_);
    part.indices += vector.first[at(d)];
    part.values += vector.first[at(d)];
    part.count = vector.first[at(d + 1)] - vector.first[at(d)];
    return part;
  }

  /// Orders what is held by digit, in the coordinates of each digit's class.
  void sort_by_digit(Vector& vector, int digits, int block, int rest_of_me) {
    int regions = 0;
    cuts_[0] = 0;
    for (int j = rest_of_me; j < setup_.ranks; j += block, ++regions) cuts_[at(regions + 1)] = cuts_[at(regions)] + size_of(j);
    kernels::host::count_regions(vector.held.indices, vector.held.count, cuts_.data(), regions, counts_.data());
    std::fill(vector.first.begin(), vector.first.end(), 0);
    for (int i = 0; i < regions; ++i) vector.first[at(i % digits + 1)] += static_cast<std::int64_t>(counts_[at(i)]);
    for (int d = 0; d < digits; ++d) vector.first[at(d + 1)] += vector.first[at(d)];
    for (int d = 0; d < digits; ++d) {
      coo::Segment<T> part = part_of(vector, d);
      std::int64_t begin = 0;   // of a region's entries among those held
      std::uint64_t place = 0;  // of the region in its class
      for (int i = 0; i < regions; ++i) {
        const auto count = static_cast<std::int64_t>(counts_[at(i)]);
        if (i % digits == d) {
          space_.copy_shifted({vector.held.indices + begin, vector.held.values + begin, count},
                              static_cast<std::uint32_t>(place - cuts_[at(i)]), part);
          part.indices += count;
          part.values += count;
          place += cuts_[at(i + 1)] - cuts_[at(i)];
        }
        begin += count;
      }
    }
  }

  /// Encodes the message for digit d. Returns its bytes.
  std::int64_t encode(int d, std::uint64_t range, std::byte* message) {
    Header header;
    for (std::size_t v = 0; v < vectors_.size(); ++v) header.counts[v] = static_cast<std::uint32_t>(part_of(vectors_[v], d).count);
    std::memcpy(message, &header, sizeof header);
    for (std::size_t v = 0; v < vectors_.size(); ++v) {
      const coo::Segment<T> part = part_of(vectors_[v], d);
      encode({part.indices, part.values, part.count}, 0, range,
             message + (v == 0 ? static_cast<std::int64_t>(sizeof header) : rest_begin(header, range)));
    }
    return message_bytes(header, range);
  }

  [[nodiscard]] coo::Segment<T> sum_of_vectors() {
    const SparseVector<T> main = vectors_[0].held;
    const auto writable = [](SparseVector<T> s) {
      return coo::Segment<T>{const_cast<T*>(s.values), const_cast<std::uint32_t*>(s.indices), s.count};
    };
    if (!folds()) return writable(main);
    const SparseVector<T> rest = vectors_[1].held;
    return space_.merge_add(writable(main), writable(rest), coo::view<T>(sum_.data(), main.count + rest.count), 0);
  }

  Setup setup_;
  HostSpace<T>& space_;
  int holders_;        // Q
  std::int64_t most_;  // entries that a rank holds
  std::vector<int> digits_;
  int partners_ = 1;  // the largest radix
  std::vector<std::uint64_t> cuts_, counts_, class_sums_;
  Buffer<std::byte> selected_;
  std::vector<Vector> vectors_;  // those of the ranks below Q, and of the others
  Buffer<std::byte> sum_;        // of both vectors
  std::int64_t open_bytes_ = 0;
  Buffer<std::byte> open_, whole_, outgoing_;
  std::vector<const std::byte*> arrived_;
  std::vector<Request> receives_, sends_;
  const Boundaries* boundaries_ = nullptr;
  coo::Segment<T> reduced_;
};

}  // namespace weir
