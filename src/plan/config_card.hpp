// config_card.hpp: a configuration as plain bytes, for agreement between ranks; and agreement on what became of it.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <weir/weir.hpp>

#include "plan/communicator.hpp"

namespace weir {

/// What one rank was asked to make, or the error that this has.
struct ConfigCard {
  std::int32_t status = WEIR_OK;
  std::array<char, 380> text{};  ///< the error, or the algorithm's name
  std::array<double, 20> fields{};

  void set_text(const std::string& content);
};

/// Throws the error of the lowest rank that has one, else Error(WEIR_ERR_MISMATCH) naming the first field that differs. `what`
/// names the thing for people, `text_name` what the text is. Fields beyond `field_names` are not looked at.
void check_agreement(std::span<const ConfigCard> cards, std::string_view what, std::string_view text_name,
                     std::span<const char* const> field_names);

namespace detail {

/// Collective. Calls make(), which communicates, if at all, before anything can fail on one rank alone, and throws on every rank
/// alike what it threw on the lowest rank where it did. `thing`, "plan" or "table", and its name are for people.
void make_on_all_ranks(CommunicatorState& comm, int tag, std::string_view thing, std::string_view name,
                       const std::function<void()>& make);

}  // namespace detail

}  // namespace weir
