// state.hpp: the state that is kept from one iteration to the next, as named fields that can be saved and restored.
//
// A class with such state keeps all of it in one `struct State`, whose visit(StateVisitor&) names its fields. The class's
// visit_state(StateVisitor&) passes that State and visits what the class owns. Pointers, views and scratch are not state.
//
// A restoring visitor visits twice: the first visit checks, and throws Error if the saved state does not fit; the second writes. A
// state that is refused therefore changes nothing. Both visits deliver what value() and values() name, into a copy of the State, so
// that visits may depend on it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/buffer.hpp"
#include "base/error.hpp"

namespace weir {

/// The type of a field's elements.
enum class StateType : std::uint8_t { boolean, int32, int64, uint32, uint64, float32, float64, text, uint8 };

/// How a field is divided again for another number of ranks or another node layout.
enum class Share : std::uint8_t {
  each,    ///< a rank's own: rank r gets that of an old rank
  agreed,  ///< equal on the ranks that hold the same range: taken from the first old rank that held its beginning
  layout,  ///< depends on the old division: the rank keeps what it has
  summed,  ///< a part of a vector that is the sum of all ranks' parts
  block,   ///< a part of a matrix: every element is on one rank, or the same on several
  cuts     ///< `agreed`, and ascending positions that cut the range into regions
};

/// The part of a whole that a rank's field is: some rows and some columns of a matrix or, with one column, a range of a
/// vector.
struct Region {
  std::int64_t whole_rows = 0, whole_columns = 1;
  std::int64_t first_row = 0, rows = 0, first_column = 0, columns = 1;

  friend bool operator==(const Region&, const Region&) = default;
};
/// Returns the region of elements [first, first + count) of a vector of `whole`.
[[nodiscard]] constexpr Region range_of(std::int64_t whole, std::int64_t first, std::int64_t count) {
  return {.whole_rows = whole, .first_row = first, .rows = count};
}

struct Placement {
  Share share = Share::each;
  Region region{};  ///< not used for `each` and `layout`
};
[[nodiscard]] std::string_view state_type_name(StateType type);
/// Returns the bytes of one element.
[[nodiscard]] std::int64_t state_type_bytes(StateType type);

template <class V>
[[nodiscard]] constexpr StateType state_type_of() {
  if constexpr (std::is_enum_v<V>)
    return state_type_of<std::underlying_type_t<V>>();
  else if constexpr (std::is_same_v<V, bool>)
    return StateType::boolean;
  else if constexpr (sizeof(V) == 1)
    return StateType::uint8;
  else if constexpr (std::is_floating_point_v<V>)
    return sizeof(V) == 4 ? StateType::float32 : StateType::float64;
  else if constexpr (std::is_signed_v<V>)
    return sizeof(V) == 4 ? StateType::int32 : StateType::int64;
  else
    return sizeof(V) == 4 ? StateType::uint32 : StateType::uint64;
}

struct StateField {
  std::string name;  ///< a path: "step/selector/threshold"
  StateType type{};
  std::int64_t count = 0;
  Buffer<std::byte> bytes;
};

/// The fields in the order of the visit. No name occurs twice.
struct SavedState {
  std::vector<StateField> fields;
  /// Returns the field of that name, or nullptr if there is no such field.
  [[nodiscard]] const StateField* find(std::string_view name) const;
};

/// A field that is visited.
struct FieldVisit {
  std::string name;  ///< a path: "step/selector/threshold"
  StateType type{};
  std::int64_t count = 0;
  Placement placement{};

  [[nodiscard]] std::int64_t bytes() const;
};

class StateVisitor {
 public:
  /// Copies bytes between host memory and the memory of an array, in either direction; done when it returns.
  using Copy = std::function<void(void* to, const void* from, std::int64_t bytes)>;

  /// `subject` names what is visited, for messages: "plan 'x'".
  explicit StateVisitor(std::string subject) : subject_(std::move(subject)) {}
  virtual ~StateVisitor() = default;
  StateVisitor(const StateVisitor&) = delete;
  StateVisitor& operator=(const StateVisitor&) = delete;

  /// Prefixes the names of fields visited during its life with `name` and a slash.
  class Scope {
   public:
    Scope(StateVisitor& visitor, std::string_view name) : path_(visitor.path_), length_(path_.size()) {
      path_.append(name).push_back('/');
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { path_.resize(length_); }

   private:
    std::string& path_;
    std::size_t length_;
  };

  /// Visits a number, enumerator or bool.
  template <class V>
  void value(std::string_view name, V& x) {
    values(name, std::span<V>(&x, 1));
  }
  template <class V>
  void value(std::string_view name, V& x, Share share) {
    values(name, std::span<V>(&x, 1), share);
  }
  /// Visits a few of them, in host memory.
  template <class V>
  void values(std::string_view name, std::span<V> x) {
    values(name, x, placement_.share);
  }
  template <class V>
  void values(std::string_view name, std::span<V> x, Share share) {
    field(describe<V>(name, static_cast<std::int64_t>(x.size()), share), x.data(), nullptr);
  }
  /// Visits a large array that only `copy` can access. The checking visit of a restoring visitor delivers nothing to it.
  template <class V>
  void array(std::string_view name, V* x, std::int64_t count, const Copy& copy) {
    field(describe<V>(name, count, placement_.share), x, &copy);
  }
  /// Visits a number that must be the same in the saved state and here; with Share::layout, only if the ranks are the same as
  /// before. `names`: of an enumerator's values, for messages. text() does so for a text.
  void fixed(std::string_view name, std::int64_t here, Share share = Share::each, std::span<const std::string_view> names = {});
  /// Records that the state depends on the ranks' switch groups: if these differ, all of the subject is divided again.
  void along_switches() { fixed(along_switches_name, 1, Share::layout); }
  static constexpr std::string_view along_switches_name = "along_switches";
  void text(std::string_view name, std::string_view here, Share share = Share::each);
  /// Sets the placement of fields visited during its life, unless they name a Share of their own.
  class Placed {
   public:
    Placed(StateVisitor& visitor, const Placement& placement) : visitor_(visitor), before_(visitor.placement_) {
      visitor.placement_ = placement;
    }
    Placed(const Placed&) = delete;
    Placed& operator=(const Placed&) = delete;
    ~Placed() { visitor_.placement_ = before_; }

   private:
    StateVisitor& visitor_;
    Placement before_;
  };
  [[nodiscard]] const Placement& placement() const { return placement_; }
  /// Refuses the state unless `ok`: a field delivered before is not `right`, for example "between 0 and 2".
  void check(bool ok, std::string_view name, std::string_view right) const;
  [[noreturn]] void refuse(std::string_view name, std::string_view why) const;

  /// Visits a copy of `state`. When restoring, the copy with what was delivered to it replaces the state.
  template <class State>
  void state(State& state) {
    State next = state;
    next.visit(*this);
    if (restores()) state = std::move(next);
  }
  /// Returns whether this visit writes: the state has been checked, and fits.
  [[nodiscard]] virtual bool restores() const = 0;

 protected:
  [[nodiscard]] const std::string& subject() const { return subject_; }
  /// `name` is the whole path.
  [[noreturn]] void refuse_field(std::string_view name, std::string_view why) const;

 private:
  /// `name` is the whole path. `copy` is null if `data` is a few numbers in host memory.
  virtual void field(FieldVisit visit, void* data, const Copy* copy) = 0;
  virtual void text_field(FieldVisit visit, std::string_view here) = 0;
  template <class V>
  [[nodiscard]] FieldVisit describe(std::string_view name, std::int64_t count, Share share) const {
    return {path_ + std::string(name), state_type_of<V>(), count, {share, placement_.region}};
  }

  std::string subject_, path_;
  Placement placement_;
};

class StateSaver final : public StateVisitor {
 public:
  StateSaver() : StateVisitor("what is saved") {}
  [[nodiscard]] bool restores() const override { return false; }
  [[nodiscard]] SavedState take() { return std::move(saved_); }

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override;
  void text_field(FieldVisit visit, std::string_view here) override;

  SavedState saved_;
  std::unordered_set<std::string> names_;
};

/// Checks until write() is called, then writes.
class StateRestorer final : public StateVisitor {
 public:
  /// `saved` must outlive it.
  StateRestorer(const SavedState& saved, std::string subject)
      : StateVisitor(std::move(subject)), saved_(saved), visited_(saved.fields.size()) {
    for (std::size_t i = 0; i < saved.fields.size(); ++i) places_.emplace(saved.fields[i].name, i);
  }
  /// Throws Error(WEIR_ERR_ARGUMENT) if the saved state has fields that were not visited. Call it after the checking visit.
  void check_all_visited() const;
  /// Calls check_all_visited(), and makes the next visit write.
  void write();
  [[nodiscard]] bool restores() const override { return writes_; }

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override;
  void text_field(FieldVisit visit, std::string_view here) override;
  /// Returns the field of that name and type. Throws if its bytes are truncated.
  const StateField& find(const std::string& name, StateType type);

  const SavedState& saved_;
  std::unordered_map<std::string_view, std::size_t> places_;  // by name
  std::vector<bool> visited_;
  bool writes_ = false;
};

template <class Subject>
[[nodiscard]] SavedState save_state(Subject& subject) {
  StateSaver saver;
  subject.visit_state(saver);
  return saver.take();
}

/// Restores `subject`, which messages call `name`. Throws Error(WEIR_ERR_ARGUMENT) naming the field that is missing, unknown, of
/// another type or size, or wrong; `subject` is then unchanged. If copying itself fails, because memory is short or the GPU fails,
/// `subject` may be partly restored.
template <class Subject>
void restore_state(Subject& subject, const SavedState& saved, std::string name) {
  StateRestorer restorer(saved, std::move(name));
  subject.visit_state(restorer);
  restorer.write();
  subject.visit_state(restorer);
}

}  // namespace weir
