#include "checkpoint/delivery.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "checkpoint/chunk_io.hpp"
#include "checkpoint/redistribution.hpp"

namespace weir::checkpoint {
namespace {

constexpr std::int64_t block_elements = std::int64_t{1} << 16;

/// Makes the state of one subject.
class Delivery {
 public:
  Delivery(Source& source, const Subject& saved, const Subject& wanted) : source_(source), saved_(saved), wanted_(wanted) {}

  /// Returns every field that this rank has saved.
  SavedState own() {
    SavedState state;
    for (const Dataset& dataset : saved_.datasets) {
      const Piece& piece = dataset.pieces[source_.rank];
      if (piece.present()) read_piece(dataset, source_.rank, add(state, dataset, piece.count));
    }
    return state;
  }

  /// Returns every field that this rank has now, redistributed from all old ranks.
  SavedState divided_anew() {
    SavedState state;
    for (const Dataset& field : wanted_.datasets) {
      StateField& to = add(state, field, field.pieces.front().count);
      switch (field.share) {
        case Share::summed:
          take_shares(field, to);
          break;
        case Share::block:
          take_parts(field, to);
          break;
        case Share::cuts:
          take_cuts(field, to);
          break;
        case Share::agreed:
          take_agreed(field, to);
          break;
        case Share::each:
          take_each(field, to);
          break;
        case Share::layout:
          stay(field, to);
          break;
      }
    }
    return state;
  }

  /// Returns the state of a caller's array. An array of one rank is restored on that rank only.
  SavedState array() {
    if (wanted_.datasets.front().share == Share::block) return divided_anew();
    const bool has_one = source_.rank < source_.index.ranks() && saved_.datasets.front().pieces[source_.rank].present();
    return has_one ? own() : SavedState{};
  }

 private:
  [[noreturn]] void mismatch(const Dataset& field, std::string_view why) const {
    fail(WEIR_ERR_MISMATCH, "{} does not fit {}: field '{}': {}", source_.file.path(), wanted_.words(), field.name, why);
  }

  static StateField& add(SavedState& state, const Dataset& like, std::int64_t count) {
    return state.fields.emplace_back(StateField{like.name, like.type, count, Buffer<std::byte>(count * like.element_bytes())});
  }

  void read_piece(const Dataset& dataset, std::size_t rank, StateField& to) {
    if (to.count == 0) return;
    if (dataset.chunked) {
      ChunkReader reader(source_.file, source_.index, saved_, dataset);
      reader.read(rank, 0, to.count, to.bytes.data());
      source_.bytes_read += reader.bytes_read();
    } else {
      const std::span<const std::byte> value = dataset.value(rank);
      std::copy(value.begin(), value.end(), to.bytes.data());
    }
  }

  static void stay(const Dataset& field, StateField& to) { std::copy(field.values.begin(), field.values.end(), to.bytes.data()); }

  /// Returns the saved dataset of the same field. Returns null if it belongs to another algorithm.
  [[nodiscard]] const Dataset* saved(const Dataset& field) const {
    const Dataset* const dataset = saved_.find(field.name);
    return dataset != nullptr && dataset->type == field.type && dataset->chunked == field.chunked ? dataset : nullptr;
  }
  /// Returns the ranks that have saved a piece of a dataset, which may be null.
  [[nodiscard]] static std::vector<std::size_t> ranks_with(const Dataset* dataset) {
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; dataset != nullptr && rank < dataset->pieces.size(); ++rank) {
      if (dataset->pieces[rank].present()) ranks.push_back(rank);
    }
    return ranks;
  }

  void take_each(const Dataset& field, StateField& to) {
    const Dataset* const dataset = saved(field);
    const std::vector<std::size_t> ranks = ranks_with(dataset);
    if (ranks.empty()) return stay(field, to);
    const std::size_t rank = ranks[source_.rank % ranks.size()];
    if (const std::int64_t count = dataset->pieces[rank].count; count != to.count) {
      to.count = count;
      to.bytes = Buffer<std::byte>(count * dataset->element_bytes());
    }
    read_piece(*dataset, rank, to);
  }

  void take_agreed(const Dataset& field, StateField& to) {
    const Dataset* const dataset = saved(field);
    const std::int64_t row = field.pieces.front().region.first_row;
    for (const std::size_t rank : ranks_with(dataset)) {
      const auto& [count, region] = dataset->pieces[rank];
      const bool has_beginning = region.first_row <= row && row < region.first_row + region.rows;
      if (count == to.count && has_beginning) return read_piece(*dataset, rank, to);
    }
    stay(field, to);
  }

  void take_cuts(const Dataset& field, StateField& to) {
    const Dataset* const dataset = saved(field);
    if (dataset == nullptr || to.count < 2) return stay(field, to);
    std::vector<std::vector<std::uint64_t>> values;
    std::vector<Cuts> old;
    values.reserve(dataset->pieces.size());
    for (const std::size_t rank : ranks_with(dataset)) {
      const std::span<const std::byte> bytes = dataset->value(rank);
      values.emplace_back(bytes.size() / sizeof(std::uint64_t));
      if (!bytes.empty()) std::memcpy(values.back().data(), bytes.data(), bytes.size());
      old.push_back({dataset->pieces[rank].region, values.back()});
    }
    const std::vector<std::uint64_t> cuts = cut_anew(old, field.pieces.front().region, to.count - 1);
    std::memcpy(to.bytes.data(), cuts.data(), cuts.size() * sizeof(std::uint64_t));
  }

  void take_parts(const Dataset& field, StateField& to) {
    const Dataset* const dataset = saved(field);
    if (dataset == nullptr) mismatch(field, "the file has none of this type");
    const Region& mine = field.pieces.front().region;
    std::vector<Region> holders;
    for (const Piece& piece : dataset->pieces) holders.push_back(piece.count > 0 ? piece.region : Region{});
    for (const Piece& piece : dataset->pieces) {
      if (piece.present() && (piece.region.whole_rows != mine.whole_rows || piece.region.whole_columns != mine.whole_columns))
        mismatch(field, fmt::format("the whole has {} x {} elements in the file and {} x {} here", piece.region.whole_rows,
                                    piece.region.whole_columns, mine.whole_rows, mine.whole_columns));
    }
    ChunkReader reader(source_.file, source_.index, saved_, *dataset);
    std::int64_t elements = 0;
    for (const Part& part : parts_of(mine, holders, source_.rank % holders.size())) {
      copy_part(reader, *dataset, part, mine, to);
      elements += part.region.rows * part.region.columns;
    }
    source_.bytes_read += reader.bytes_read();
    if (elements != to.count)
      mismatch(field, fmt::format("the file has {} of the {} elements that this rank holds", elements, to.count));
  }

  static void copy_part(ChunkReader& reader, const Dataset& dataset, const Part& part, const Region& mine, StateField& to) {
    const Region& theirs = dataset.pieces[part.of].region;
    const Region& r = part.region;
    const bool whole_rows = r.columns == theirs.columns && r.columns == mine.columns;
    const std::int64_t steps = whole_rows ? 1 : r.rows, length = whole_rows ? r.rows * r.columns : r.columns;
    for (std::int64_t row = 0; row < steps; ++row) {
      const std::int64_t from = (r.first_row + row - theirs.first_row) * theirs.columns + (r.first_column - theirs.first_column);
      const std::int64_t at = (r.first_row + row - mine.first_row) * mine.columns + (r.first_column - mine.first_column);
      reader.read(part.of, from, length, to.bytes.data() + at * dataset.element_bytes());
    }
  }

  /// A rank's saved part of a sum. All holders of one kind are added: the field itself, and, if the plan was trying candidates,
  /// what the last candidate has left over.
  struct Holder {
    const Dataset* dataset;
    std::size_t rank;
  };
  void take_shares(const Dataset& field, StateField& to) {
    std::fill_n(to.bytes.data(), to.bytes.size(), std::byte{0});
    const std::string_view kind = kind_of(field.name);
    if (&field != first_sum(wanted_, kind)) return;
    std::vector<Holder> holders;
    std::vector<Region> old_regions, new_regions;
    for (const Dataset& dataset : saved_.datasets) {
      if (dataset.share != Share::summed || !dataset.chunked || kind_of(dataset.name) != kind) continue;
      if (dataset.type != field.type)
        mismatch(field,
                 fmt::format("it holds {} in the file and {} here", state_type_name(dataset.type), state_type_name(field.type)));
      for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
        if (dataset.pieces[rank].count <= 0) continue;
        holders.push_back({&dataset, rank});
        old_regions.push_back(dataset.pieces[rank].region);
      }
    }
    for (const Outline& outline : source_.outlines) {
      const Dataset* const sum = first_sum(*find_same(outline, wanted_), kind);
      new_regions.push_back(sum != nullptr && sum->pieces.front().count > 0 ? sum->pieces.front().region : Region{});
    }
    if (const std::int64_t element = uncovered_element(old_regions, new_regions); element >= 0)
      mismatch(
          field,
          fmt::format("ranks have saved element {} of it, and none keeps that here: is error feedback off, or the plan smaller?",
                      element));
    for (const Sum& sum : shares_of(old_regions, new_regions, source_.rank)) {
      if (field.type == StateType::float64)
        add_up<double, long double>(holders, old_regions, sum, field, to);
      else
        add_up<float, double>(holders, old_regions, sum, field, to);
    }
  }

  /// Returns the kind of a sum, "residual" for "step/residual". Velocities and residuals are separate sums. In a plan, all fields
  /// of one kind are one sum, whichever candidate has them. Every fused tensor has its own sums.
  [[nodiscard]] std::string_view kind_of(std::string_view name) const {
    return wanted_.kind == Kind::fused ? name : name.substr(name.rfind('/') + 1);
  }

  [[nodiscard]] const Dataset* first_sum(const Subject& subject, std::string_view kind) const {
    return find_near(subject.datasets, 0, [&](const Dataset& field) {
      return field.chunked && field.share == Share::summed && kind_of(field.name) == kind;
    });
  }

  /// Adds in `Wide` and rounds once, at the end.
  template <class T, class Wide>
  void add_up(const std::vector<Holder>& holders, const std::vector<Region>& regions, const Sum& sum, const Dataset& field,
              StateField& to) {
    const std::int64_t begin = field.pieces.front().region.first_row;
    auto* const out = reinterpret_cast<T*>(to.bytes.data());
    std::vector<ChunkReader> readers;
    for (const std::size_t holder : sum.of) readers.emplace_back(source_.file, source_.index, saved_, *holders[holder].dataset);
    std::vector<T> values;
    std::vector<Wide> wide;
    const std::int64_t step = sum.of.size() == 1 ? sum.end - sum.begin : block_elements;
    for (std::int64_t first = sum.begin; first < sum.end; first += step) {
      const std::int64_t count = std::min(step, sum.end - first);
      if (sum.of.size() == 1) {
        readers[0].read(holders[sum.of[0]].rank, first - regions[sum.of[0]].first_row, count,
                        reinterpret_cast<std::byte*>(out + (first - begin)));
        continue;
      }
      wide.assign(static_cast<std::size_t>(count), 0);
      values.resize(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < sum.of.size(); ++i) {
        readers[i].read(holders[sum.of[i]].rank, first - regions[sum.of[i]].first_row, count,
                        reinterpret_cast<std::byte*>(values.data()));
        for (std::size_t e = 0; e < wide.size(); ++e) wide[e] += static_cast<Wide>(values[e]);
      }
      for (std::size_t e = 0; e < wide.size(); ++e) out[first - begin + static_cast<std::int64_t>(e)] = static_cast<T>(wide[e]);
    }
    for (const ChunkReader& reader : readers) source_.bytes_read += reader.bytes_read();
  }

  Source& source_;
  const Subject& saved_;
  const Subject& wanted_;
};

}  // namespace

void check_subjects(const Index& index, const Outline& outline, const std::string& file) {
  for (const Subject& here : outline) {
    if (find_same(index.subjects, here) == nullptr)
      fail(WEIR_ERR_MISMATCH, "{} does not fit: it has no {}, which was added here", file, here.words());
  }
  for (const Subject& there : index.subjects) {
    if (find_same(outline, there) == nullptr)
      fail(WEIR_ERR_MISMATCH, "{} does not fit: it has {}, which was not added here", file, there.words());
  }
}

namespace {

/// Returns whether any rank has state along switches in this subject, in the file or now. Same answer on every rank.
bool goes_along_switches(const Source& source, const Subject& saved) {
  const auto says_so = [](const Subject& subject) {
    return std::any_of(subject.datasets.begin(), subject.datasets.end(),
                       [](const Dataset& d) { return d.name.ends_with(StateVisitor::along_switches_name); });
  };
  return says_so(saved) || std::any_of(source.outlines.begin(), source.outlines.end(),
                                       [&](const Outline& outline) { return says_so(*find_same(outline, saved)); });
}

}  // namespace

SavedState deliver(Source& source, const Subject& subject) {
  const Subject& saved = *find_same(source.index.subjects, subject);
  Delivery delivery(source, saved, subject);
  if (subject.kind == Kind::array) return delivery.array();
  if (subject.kind == Kind::optimizer) return delivery.divided_anew();  // the optimizer's own division decides, not the ranks
  const bool as_it_was = source.same_layout && (source.same_switches || !goes_along_switches(source, saved));
  return as_it_was ? delivery.own() : delivery.divided_anew();
}

}  // namespace weir::checkpoint
