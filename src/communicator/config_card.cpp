#include "communicator/config_card.hpp"

#include "base/error.hpp"
#include "base/fingerprint.hpp"

namespace weir {
namespace {

/// What each rank sends when something is to be made.
struct Opening {
  ConfigCard config;
  detail::Leases::Returned returned;
};

std::string show(const CardField& field, std::uint64_t bits) {
  if (bits < field.values.size()) return std::string(field.values[bits]);
  return field.real ? fmt::format("{}", std::bit_cast<double>(bits)) : fmt::format("{}", static_cast<std::int64_t>(bits));
}

template <std::size_t size>
void write(std::string_view content, std::array<char, size>& to) noexcept {
  to = {};
  if (content.copy(to.data(), size - 1) == content.size()) return;
  Fingerprint whole;
  whole.add(content);
  constexpr std::size_t digits = 20;  // "...#" and 16 digits
  fmt::format_to_n(to.data() + size - 1 - digits, digits, "...#{:016x}", whole.value());
}

void check_agreement(std::span<const Opening> ranks, const CardNames& names, std::string_view name) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const detail::Outcome& outcome = ranks[rank].config.outcome;
    if (outcome.failed())
      fail_alike(static_cast<weir_status>(outcome.status), "{} '{}', rank {}: {}", names.what, name, rank, outcome.text.data());
  }
  const ConfigCard& first = ranks[0].config;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const ConfigCard& card = ranks[rank].config;
    for (std::size_t text = 0; text < card.texts.size(); ++text) {
      if (card.texts[text] != first.texts[text]) {
        fail_alike(WEIR_ERR_MISMATCH, "{} '{}': ranks disagree about {}: rank 0 has '{}', rank {} has '{}'", names.what, name,
                   names.texts[text], first.texts[text].data(), rank, card.texts[text].data());
      }
    }
    for (std::size_t field = 0; field < names.fields.size(); ++field) {
      if (card.fields[field] != first.fields[field]) {
        fail_alike(WEIR_ERR_MISMATCH, "{} '{}': ranks disagree about {}: rank 0 has {}, rank {} has {}", names.what, name,
                   names.fields[field].name, show(names.fields[field], first.fields[field]), rank,
                   show(names.fields[field], card.fields[field]));
      }
    }
  }
}

}  // namespace

void ConfigCard::set_texts(std::initializer_list<std::string_view> contents) noexcept {
  auto text = texts.begin();
  for (const std::string_view content : contents) write(content, *text++);
}

detail::Lease open_agreed(detail::CommunicatorState& comm, ConfigCard mine, const CardNames& names, std::string_view name) {
  comm.require_whole();
  detail::Leases& leases = comm.leases;
  if (!mine.outcome.failed()) mine.outcome = detail::outcome_of([&] { leases.prepare(comm.transport->max_tag()); });
  const std::span<const Opening> ranks = comm.share("making a plan or table", Opening{mine, leases.returned()});
  for (const Opening& rank : ranks) leases.collect(rank.returned);
  check_agreement(ranks, names, name);
  return leases.take();
}

[[noreturn]] void detail::refuse_making(const std::shared_ptr<CommunicatorState>& comm, std::string_view what, const Error& error) {
  const auto inside = comm->enter();
  ConfigCard card;
  card.outcome.set(error.status(), error.what());
  static_cast<void>(open_agreed(*comm, card, {what, {}}, ""));
  throw error;
}

}  // namespace weir
