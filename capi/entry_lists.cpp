// Lists of entries of sparse tensors: positions as distances, and sums.
#include "entry_lists.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "shim.hpp"

using namespace weir::capi;

namespace weir::capi::entries {

template <class Kind>
constexpr auto longest = static_cast<std::int64_t>(std::min<std::uint64_t>(std::numeric_limits<Kind>::max(),
                                                                           std::numeric_limits<std::int64_t>::max()));

/// Calls body(Kind{}) for the type of distances of this width.
template <class Body>
void with_kind(std::int64_t width, const Body& body) {
  switch (width) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    case 8:
      return body(std::uint64_t{});
    default:
      throw weir::Error(WEIR_ERR_INTERNAL, "a list of entries has an unknown width of distances");
  }
}

/// The positions of a list that have not been read yet.
class Reader {
 public:
  explicit Reader(const weir_entry_list& list)
      : at_(list.coded), end_(list.coded + list.bytes), width_(list.width), position_(list.first) {}

  [[nodiscard]] bool empty() const { return at_ == end_; }
  /// Returns a number that is at most the next position, and more than the last one, unless that is the first of all.
  [[nodiscard]] std::int64_t bound() const {
    std::int64_t distance = 0;
    with_kind(width_, [&]<class Kind>(Kind) { distance = load<Kind>(at_); });
    return position_ + distance;
  }
  /// Calls body(position) for all positions below `end`.
  template <class Body>
  void read(std::int64_t end, const Body& body) {
    with_kind(width_, [&]<class Kind>(Kind) {
      const std::uint8_t* at = at_;  // in registers
      std::int64_t position = position_;
      for (; at != end_; at += sizeof(Kind)) {
        const std::int64_t distance = load<Kind>(at);
        if (distance >= end - position) break;
        position += distance;
        if (distance != longest<Kind>) body(position);
      }
      at_ = at;
      position_ = position;
    });
  }

 private:
  template <class Kind>
  static std::int64_t load(const std::uint8_t* at) {
    Kind distance;
    std::memcpy(&distance, at, sizeof distance);
    return static_cast<std::int64_t>(distance);
  }

  const std::uint8_t *at_, *end_;
  std::int64_t width_, position_;
};

/// Rows of indices, one for each dimension.
class IndexRows {
 public:
  IndexRows(std::int64_t* indices, std::int64_t row, const std::int64_t* sizes, std::int32_t dims)
      : indices_(indices), row_(row), sizes_(sizes), dims_(dims) {}
  [[nodiscard]] bool one() const { return dims_ == 1; }
  [[nodiscard]] std::int64_t* first() const { return indices_; }
  void set(std::int64_t entry, std::int64_t position) const {
    for (std::int32_t dim = dims_; dim-- > 1;) {
      indices_[dim * row_ + entry] = position % sizes_[dim];
      position /= sizes_[dim];
    }
    if (dims_ > 0) indices_[entry] = position;
  }

 private:
  std::int64_t* indices_;
  std::int64_t row_;
  const std::int64_t* sizes_;
  std::int32_t dims_;
};

template <class Kind>
std::int64_t code(const std::int64_t* positions, std::int64_t count, std::int64_t first, std::uint8_t* coded) {
  std::uint8_t* at = coded;
  const auto write = [&](std::int64_t distance) {
    const auto number = static_cast<Kind>(distance);
    std::memcpy(at, &number, sizeof number);
    at += sizeof number;
  };
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t distance = positions[i] - first;
    for (; distance >= longest<Kind>; distance -= longest<Kind>) write(longest<Kind>);
    write(distance);
    first = positions[i];
  }
  return at - coded;
}

/// Merges lists window by window. Every entry gets a slot: the place of its position among all, counted from the window's first.
class Merge {
 public:
  Merge(std::span<const weir_entry_list> lists, std::int64_t range) : range_(range), ends_(lists.size() + 1) {
    std::int64_t total = 0;
    for (const weir_entry_list& list : lists) {
      readers_.emplace_back(list);
      total += list.count;
    }
    offsets_ = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(total));
    slots_ = std::make_unique_for_overwrite<std::uint32_t[]>(static_cast<std::size_t>(total));
    const std::int64_t each = range / std::max<std::int64_t>(total, 1) + 1;
    window_ = each > range / usual_entries ? range : each * usual_entries;
  }

  /// Sets slots() for the entries of the next window, and calls body(slot, position) for each position once, in ascending order.
  /// Returns false if no entries are left.
  template <class Body>
  bool next(const Body& body) {
    std::int64_t begin = range_;
    for (const Reader& reader : readers_) {
      if (!reader.empty()) begin = std::min(begin, reader.bound());
    }
    if (begin == range_) return false;
    const std::int64_t end = begin + std::min(window_, range_ - begin);
    std::int64_t* offset = offsets_.get();
    for (std::size_t list = 0; list < readers_.size(); ++list) {
      readers_[list].read(end, [&](std::int64_t position) { *offset++ = position - begin; });
      ends_[list + 1] = offset - offsets_.get();
    }
    if ((end - begin) / most_empty <= ends_.back())
      number_by_bits(end - begin, begin, body);
    else
      number_by_order(begin, body);
    return true;
  }
  /// Returns how many positions this window has.
  [[nodiscard]] std::int64_t positions() const { return positions_; }
  /// Returns the slots of the entries of a list in this window.
  [[nodiscard]] std::span<const std::uint32_t> slots(std::size_t list) const {
    return {slots_.get() + ends_[list], slots_.get() + ends_[list + 1]};
  }

 private:
  static constexpr std::int64_t usual_entries = 1024;
  static constexpr std::int64_t most_empty = 512;  // positions for each entry up to which bits for all of them are faster
  static constexpr std::int64_t word_bits = 64;

  template <class Body>
  void number_by_bits(std::int64_t length, std::int64_t begin, const Body& body) {
    const auto words = static_cast<std::size_t>((length + word_bits - 1) / word_bits);
    bits_.assign(words, 0);
    if (std::ssize(slot_of_) < length) slot_of_.resize(static_cast<std::size_t>(length));
    std::uint64_t* const all = bits_.data();
    std::uint32_t *const slot_of = slot_of_.data(), *const slots = slots_.get();
    const std::int64_t *const offsets = offsets_.get(), entries = ends_.back();
    for (std::int64_t i = 0; i < entries; ++i) all[offsets[i] / word_bits] |= std::uint64_t{1} << (offsets[i] % word_bits);
    std::uint32_t slot = 0;
    for (std::size_t word = 0; word < words; ++word) {
      const std::int64_t first = static_cast<std::int64_t>(word) * word_bits;
      for (std::uint64_t bits = all[word]; bits != 0; bits &= bits - 1) {
        const std::int64_t offset = first + std::countr_zero(bits);
        slot_of[offset] = slot;
        body(slot++, begin + offset);
      }
    }
    for (std::int64_t i = 0; i < entries; ++i) slots[i] = slot_of[offsets[i]];
    positions_ = slot;
  }
  template <class Body>
  void number_by_order(std::int64_t begin, const Body& body) {
    order_.clear();
    for (std::int64_t i = 0; i < ends_.back(); ++i) order_.emplace_back(offsets_[static_cast<std::size_t>(i)], i);
    std::sort(order_.begin(), order_.end());
    std::uint32_t slot = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const auto [offset, entry] = order_[i];
      const bool again = i > 0 && order_[i - 1].first == offset;
      if (!again) body(slot++, begin + offset);
      slots_[static_cast<std::size_t>(entry)] = slot - 1;
    }
    positions_ = slot;
  }

  std::int64_t range_, window_ = 1;
  std::vector<Reader> readers_;
  std::unique_ptr<std::int64_t[]> offsets_;  // of a window's entries, list after list
  std::vector<std::ptrdiff_t> ends_;
  std::unique_ptr<std::uint32_t[]> slots_;
  std::int64_t positions_ = 0;
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> slot_of_;  // of offsets
  std::vector<std::pair<std::int64_t, std::int64_t>> order_;
};

/// Integers wrap around.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}

template <class T>
std::int64_t sum(std::span<const weir_entry_list> lists, std::int64_t range, std::int64_t elements, const T* values, T* sums,
                 const IndexRows& indices) {
  std::vector<const T*> next;
  for (const weir_entry_list& list : lists) {
    next.push_back(values);
    values += list.count * elements;
  }
  Merge merge(lists, range);
  std::int64_t done = 0;
  const auto next_window = [&] {
    if (!indices.one()) return merge.next([&](std::uint32_t slot, std::int64_t position) { indices.set(done + slot, position); });
    return merge.next([to = indices.first() + done](std::uint32_t slot, std::int64_t position) { to[slot] = position; });
  };
  while (next_window()) {
    T* const here = sums + done * elements;
    std::fill_n(here, merge.positions() * elements, T{0});
    for (std::size_t list = 0; list < lists.size(); ++list) {
      if (elements == 1) {
        const T* value = next[list];
        for (const std::uint32_t slot : merge.slots(list)) here[slot] = sum_of(here[slot], *value++);
        next[list] = value;
        continue;
      }
      for (const std::uint32_t slot : merge.slots(list)) {
        T* const row = here + slot * elements;
        for (std::int64_t i = 0; i < elements; ++i) row[i] = sum_of(row[i], next[list][i]);
        next[list] += elements;
      }
    }
    done += merge.positions();
  }
  return done;
}

std::int64_t range_of(const std::int64_t* sizes, std::int32_t dims) {
  std::int64_t range = 1;
  for (std::int32_t dim = 0; dim < dims; ++dim) range *= sizes[dim];
  return range;
}

}  // namespace weir::capi::entries

using namespace weir::capi::entries;

extern "C" {

weir_status weir_entries_positions(const std::int64_t* indices, const std::int64_t* sizes, std::int32_t dims, std::int64_t count,
                                   std::int64_t* positions) {
  return guard(nullptr, [&] {
    std::fill_n(positions, count, 0);
    for (std::int32_t dim = 0; dim < dims; ++dim) {
      const std::int64_t* const row = indices + dim * count;
      for (std::int64_t i = 0; i < count; ++i) {
        need(row[i] >= 0 && row[i] < sizes[dim], "an index of the sparse tensor is outside its shape");
        positions[i] = positions[i] * sizes[dim] + row[i];
      }
    }
    for (std::int64_t i = 1; i < count; ++i)
      need(positions[i - 1] < positions[i], "the indices of the sparse tensor do not ascend, though it says that it is coalesced");
  });
}

weir_status weir_entries_code(const std::int64_t* positions, std::int64_t count, std::int64_t first, std::uint8_t* coded,
                              std::int64_t* bytes, std::int64_t* width) {
  return guard(nullptr, [&] {
    // Up to these means, distances without an entry are at most half as many as entries.
    const std::int64_t mean = count > 0 ? (positions[count - 1] - first) / count : 0;
    *width = mean < 100 ? 1 : mean < 25000 ? 2 : mean < std::int64_t{1} << 31 ? 4 : 8;
    with_kind(*width, [&]<class Kind>(Kind) { *bytes = code<Kind>(positions, count, first, coded); });
  });
}

weir_status weir_entries_decode(const weir_entry_list* lists, std::int32_t count, const std::int64_t* sizes, std::int32_t dims,
                                std::int64_t* indices, std::int64_t row) {
  return guard(nullptr, [&] {
    const IndexRows rows(indices, row, sizes, dims);
    std::int64_t entry = 0;
    for (std::int32_t list = 0; list < count; ++list)
      Reader(lists[list]).read(range_of(sizes, dims), [&](std::int64_t position) { rows.set(entry++, position); });
  });
}

weir_status weir_entries_sum(const weir_entry_list* lists, std::int32_t count, const std::int64_t* sizes, std::int32_t dims,
                             std::int32_t type, std::int64_t elements, const void* values, void* sums, std::int64_t* indices,
                             std::int64_t row, std::int64_t* merged) {
  return guard(nullptr, [&] {
    const IndexRows rows(indices, row, sizes, dims);
    const auto of_type = [&]<class T>(T) {
      *merged = sum(std::span(lists, static_cast<std::size_t>(count)), range_of(sizes, dims), elements,
                    static_cast<const T*>(values), static_cast<T*>(sums), rows);
    };
    switch (type) {  // GroupType
      case 0:
        return of_type(std::uint8_t{});
      case 1:
        return of_type(std::int8_t{});
      case 2:
        return of_type(std::int16_t{});
      case 3:
        return of_type(std::int32_t{});
      case 4:
        return of_type(std::int64_t{});
      case 5:
        return of_type(std::uint16_t{});
      case 6:
        return of_type(std::uint32_t{});
      case 7:
        return of_type(std::uint64_t{});
      case 8:
        return of_type(float{});
      case 9:
        return of_type(double{});
      default:
        throw weir::Error(WEIR_ERR_ARGUMENT, "values of this type cannot be summed");
    }
  });
}

}  // extern "C"
