#include "plan/config_card.hpp"

#include <cstring>
#include <new>
#include <vector>

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

namespace detail {

void make_on_all_ranks(CommunicatorState& comm, int tag, std::string_view thing, std::string_view name,
                       const std::function<void()>& make) {
  ConfigCard mine;
  try {
    make();
  } catch (const std::bad_alloc&) {
    mine.status = WEIR_ERR_MEMORY;
  } catch (const Error& error) {
    mine.status = error.status();
    mine.set_text(error.what());
  }
  std::vector<ConfigCard> cards(static_cast<std::size_t>(comm.topology.size()));
  allgather_blocking(comm, tag, "making a plan or table", reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                     reinterpret_cast<std::byte*>(cards.data()));
  for (std::size_t rank = 0; rank < cards.size(); ++rank) {
    const auto status = static_cast<weir_status>(cards[rank].status);
    if (status == WEIR_ERR_MEMORY) fail(status, "{} '{}': rank {} has not enough memory for it", thing, name, rank);
    if (status != WEIR_OK) fail(status, "{} '{}': rank {}: {}", thing, name, rank, cards[rank].text.data());
  }
}

}  // namespace detail

}  // namespace weir
