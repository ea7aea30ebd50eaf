#include "plan/config_card.hpp"

#include <cstring>

#include "base/error.hpp"

namespace weir {

void ConfigCard::set_text(const std::string& content) { std::strncpy(text.data(), content.c_str(), text.size() - 1); }

void check_agreement(std::span<const ConfigCard> cards, std::string_view what, std::string_view text_name,
                     std::span<const char* const> field_names) {
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].status != WEIR_OK)
      fail(static_cast<weir_status>(cards[rank].status), "{}, rank {}: {}", what, rank, cards[rank].text.data());
  }
  for (std::size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].text != cards[0].text) {
      fail(WEIR_ERR_MISMATCH, "{}: ranks disagree about {}: rank 0 has '{}', rank {} has '{}'", what, text_name,
           cards[0].text.data(), rank, cards[rank].text.data());
    }
    for (std::size_t field = 0; field < field_names.size(); ++field) {
      if (cards[rank].fields[field] != cards[0].fields[field]) {
        fail(WEIR_ERR_MISMATCH, "{}: ranks disagree about {}: rank 0 has {}, rank {} has {}", what, field_names[field],
             cards[0].fields[field], rank, cards[rank].fields[field]);
      }
    }
  }
}

}  // namespace weir
