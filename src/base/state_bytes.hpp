// state_bytes.hpp: a saved state as contiguous bytes in the caller's memory.
//
// "WEIRSTAT", version (int32), number of fields (int32); per field the length of its name (int32), its StateType (int32), its
// number of elements (int64), its name and its elements, each padded to 8 bytes; at the end a checksum of all before (uint64).
// Numbers have this processor's byte order: little-endian everywhere that Weir runs.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/state.hpp"

namespace weir {

/// Counts what StateWriter writes.
class StateMeasurer final : public StateVisitor {
 public:
  StateMeasurer() : StateVisitor("what is measured") {}
  [[nodiscard]] bool restores() const override { return false; }
  /// Returns the bytes of all fields visited so far, headers and checksum included.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override;
  void text_field(FieldVisit visit, std::string_view here) override;

  std::int64_t bytes_ = 24;
};

class StateWriter final : public StateVisitor {
 public:
  /// `to` has the size that StateMeasurer has counted.
  explicit StateWriter(std::span<std::byte> to);
  [[nodiscard]] bool restores() const override { return false; }
  /// Writes the header and the checksum. Call it after the visit.
  void finish();

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override;
  void text_field(FieldVisit visit, std::string_view here) override;
  /// Returns the next `bytes`, padded with zeros.
  std::byte* take(std::int64_t bytes);

  std::span<std::byte> to_;
  std::int64_t used_ = 0;
  std::int32_t fields_ = 0;
};

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is damaged; `subject` is for its text.
[[nodiscard]] SavedState read_state(std::span<const std::byte> bytes, std::string_view subject);

template <class Subject>
[[nodiscard]] std::int64_t state_bytes(Subject& subject) {
  StateMeasurer measurer;
  subject.visit_state(measurer);
  return measurer.bytes();
}

/// Throws Error(WEIR_ERR_ARGUMENT) if `to` has another size than state_bytes().
template <class Subject>
void save_state(Subject& subject, std::span<std::byte> to, std::string_view name) {
  const std::int64_t needed = state_bytes(subject);
  require(to.data() != nullptr && static_cast<std::int64_t>(to.size()) == needed,
          "there are {} bytes for the state of {}: it takes {}, see state_bytes", to.data() == nullptr ? 0 : to.size(), name,
          needed);
  StateWriter writer(to);
  subject.visit_state(writer);
  writer.finish();
}

/// Does the same as restore_state() of a SavedState.
template <class Subject>
void restore_state(Subject& subject, std::span<const std::byte> bytes, const std::string& name) {
  restore_state(subject, read_state(bytes, name), name);
}

}  // namespace weir
