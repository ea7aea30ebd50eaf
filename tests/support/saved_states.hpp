// saved_states.hpp: compares, copies and corrupts states.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/state.hpp"

namespace weir::test {

inline StateField copy_of(const StateField& field) {
  StateField copy{field.name, field.type, field.count, Buffer<std::byte>(field.bytes.size())};
  if (copy.bytes.size() > 0) std::memcpy(copy.bytes.data(), field.bytes.data(), static_cast<std::size_t>(copy.bytes.size()));
  return copy;
}

inline SavedState copy_of(const SavedState& saved) {
  SavedState copy;
  for (const StateField& field : saved.fields) copy.fields.push_back(copy_of(field));
  return copy;
}

/// Returns the name of the first field that differs, or "".
inline std::string first_difference(const SavedState& a, const SavedState& b) {
  if (a.fields.size() != b.fields.size()) return "the number of fields";
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    const StateField &x = a.fields[i], &y = b.fields[i];
    if (x.name != y.name || x.type != y.type || x.count != y.count || x.bytes.size() != y.bytes.size()) return x.name;
    if (x.bytes.size() > 0 && std::memcmp(x.bytes.data(), y.bytes.data(), static_cast<std::size_t>(x.bytes.size())) != 0)
      return x.name;
  }
  return "";
}

/// Returns what is wrong with how corrupted copies of `saved` are refused: each text of `restore` must name the field.
inline std::string accepted_spoilt(const SavedState& saved, const std::function<std::string(const SavedState&)>& restore) {
  const auto refused = [&](const SavedState& spoilt, const std::string& part, const std::string& name) {
    const std::string text = restore(spoilt);
    return text.find(part) != std::string::npos && text.find("'" + name + "'") != std::string::npos
               ? ""
               : "instead of '" + part + "' and '" + name + "': " + (text.empty() ? "accepted" : text) + "\n";
  };
  std::string wrong;
  for (std::size_t i = 0; i < saved.fields.size(); ++i) {
    const std::string name = saved.fields[i].name;
    SavedState spoilt = copy_of(saved);
    spoilt.fields.erase(spoilt.fields.begin() + static_cast<std::ptrdiff_t>(i));
    wrong += refused(spoilt, "has no field", name);
    spoilt = copy_of(saved);
    spoilt.fields[i].type = saved.fields[i].type == StateType::int32 ? StateType::uint32 : StateType::int32;
    wrong += refused(spoilt, "it holds", name);
    if (saved.fields[i].count == 0) continue;
    spoilt = copy_of(saved);
    spoilt.fields[i].bytes = Buffer<std::byte>(saved.fields[i].bytes.size() - 1);
    wrong += refused(spoilt, "it is truncated", name);
    if (saved.fields[i].type == StateType::text) continue;
    spoilt.fields[i].count += 1;
    spoilt.fields[i].bytes = Buffer<std::byte>(spoilt.fields[i].count * state_type_bytes(spoilt.fields[i].type));
    wrong += refused(spoilt, "elements in the state", name);
  }
  SavedState spoilt = copy_of(saved);
  spoilt.fields.push_back({"step/mood", StateType::int32, 1, Buffer<std::byte>(4)});
  return wrong + refused(spoilt, "does not know", "step/mood");
}

/// Overwrites the first element of a field.
template <class V>
SavedState with(const SavedState& saved, const std::string& name, V value) {
  SavedState changed = copy_of(saved);
  for (StateField& field : changed.fields) {
    if (field.name == name) std::memcpy(field.bytes.data(), &value, sizeof value);
  }
  return changed;
}

}  // namespace weir::test
