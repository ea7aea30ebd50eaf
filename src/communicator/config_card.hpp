// config_card.hpp: a configuration as plain bytes, for agreement between ranks.
#pragma once

#include <array>
#include <bit>
#include <initializer_list>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <weir/weir.hpp>

#include "base/fields.hpp"
#include "communicator/communicator.hpp"

namespace weir {

/// What one rank was asked to make, or the error in that.
struct ConfigCard {
  detail::Outcome outcome;
  std::array<std::array<char, 176>, 3> texts{};  ///< a text that is too long ends in its fingerprint
  std::array<std::uint64_t, 24> fields{};

  void set_texts(std::initializer_list<std::string_view> contents) noexcept;
};

/// A field of a card: its name, and how to read its bits.
struct CardField {
  std::string_view name;
  bool real = false;
  std::span<const std::string_view> values{};  ///< the names of an enumeration's values
};
using CardFields = std::array<CardField, std::tuple_size_v<decltype(ConfigCard::fields)>>;

/// Calls put(CardField, bits) for every number of a configuration on which all ranks must agree.
struct AgreedFields {
  template <class Config, class Put>
  void operator()(const Config& config, Put&& put) const {
    visit_fields(config, [&](const FieldInfo& field, const auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      if constexpr (!std::is_same_v<Value, std::string>) {
        if (!field.agreed) return;
        if constexpr (std::is_floating_point_v<Value>)
          put(CardField{field.name, true}, std::bit_cast<std::uint64_t>(value + 0.0));  // 0.0 makes -0.0 the same as 0.0
        else if constexpr (std::is_enum_v<Value>)
          put(CardField{field.name, false, names_of<Value>}, static_cast<std::uint64_t>(value));
        else
          put(CardField{field.name}, static_cast<std::uint64_t>(value));
      }
    });
  }
};

/// Returns the fields of a configuration, in the order in which `Fields` puts them; the rest have no name and equal values.
template <class Config, class Fields = AgreedFields>
[[nodiscard]] std::span<const CardField> card_fields() {
  static const CardFields all = [] {
    CardFields fields{};
    std::size_t at = 0;
    Fields{}(Config{}, [&](const CardField& field, std::uint64_t) { fields.at(at++) = field; });
    return fields;
  }();
  return all;
}

/// Sets the bits of these fields.
template <class Fields = AgreedFields, class Config>
void set_fields(ConfigCard& card, const Config& config) {
  std::size_t at = 0;
  Fields{}(config, [&](const CardField&, std::uint64_t bits) { card.fields.at(at++) = bits; });
}

/// The names of what a card holds, as error texts give them.
struct CardNames {
  std::string_view what;                    ///< "plan"
  std::span<const CardField> fields;        ///< fields beyond these are not compared
  std::array<std::string_view, 3> texts{};  ///< "algorithm", "compressor"
};

/// Begins to make something together, and returns its lease. Collective. If a rank has an error, throws that of the lowest such
/// rank on all ranks; if configurations differ, Error(WEIR_ERR_MISMATCH) with the first field that does. `name`: of the plan or
/// table.
[[nodiscard]] detail::Lease open_agreed(detail::CommunicatorState& comm, ConfigCard mine, const CardNames& names,
                                        std::string_view name);

}  // namespace weir
