// weir checkpoint diff: compares two files.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/buffer.hpp"
#include "checkpoint/chunk_io.hpp"
#include "checkpoint/whole_file.hpp"
#include "cli/checkpoint_files.hpp"

namespace weir::cli {
namespace {

using checkpoint::ChunkReader;
using checkpoint::Dataset;
using checkpoint::Index;
using checkpoint::Subject;

constexpr std::int64_t at_once = std::int64_t{1} << 22;  // bytes

/// How the elements of one rank differ.
struct Difference {
  std::int64_t elements = 0;
  double largest = 0;        // of floats that are numbers on both sides
  bool not_numbers = false;  // some elements are NaN or infinite on one side
};

template <class T>
double distance(const std::byte* a, const std::byte* b) {
  T x, y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  return std::abs(static_cast<double>(x) - static_cast<double>(y));
}

void add(const Dataset& dataset, const std::byte* a, const std::byte* b, std::int64_t count, Difference& difference) {
  const auto element = static_cast<std::size_t>(dataset.element_bytes());
  if (count == 0 || std::memcmp(a, b, static_cast<std::size_t>(count) * element) == 0) return;
  for (std::int64_t i = 0; i < count; ++i, a += element, b += element) {
    if (std::memcmp(a, b, element) == 0) continue;
    ++difference.elements;
    if (dataset.type != StateType::float32 && dataset.type != StateType::float64) continue;
    const double by = dataset.type == StateType::float32 ? distance<float>(a, b) : distance<double>(a, b);
    if (std::isfinite(by))
      difference.largest = std::max(difference.largest, by);
    else
      difference.not_numbers = true;
  }
}

/// One of the two files.
struct Side {
  explicit Side(const std::string& path) : index(checkpoint::read_whole(path)), file(checkpoint::File::open_to_read(path)) {}
  Index index;
  checkpoint::File file;
};

class Comparison {
 public:
  Comparison(const std::string& a, const std::string& b)
      : a_(a), b_(b), progress_("comparing", array_bytes(a_.index) + array_bytes(b_.index)) {}

  /// Returns a line for each difference.
  std::vector<std::string> run() {
    attributes();
    values("value", a_.index.values, b_.index.values);
    for (const Subject& subject : a_.index.subjects) {
      const Subject* const other = checkpoint::find_same(b_.index.subjects, subject);
      if (other == nullptr)
        report("only the first has {}", subject.words());
      else
        compare(subject, *other);
    }
    for (const Subject& subject : b_.index.subjects) {
      if (checkpoint::find_same(a_.index.subjects, subject) == nullptr) report("only the second has {}", subject.words());
    }
    return lines_;
  }

 private:
  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) {
    lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void attributes() {
    const Index &a = a_.index, &b = b_.index;
    if (a.step != b.step) report("step: {} and {}", a.step, b.step);
    if (a.run != b.run) report("run: '{}' and '{}'", a.run, b.run);
    if (a.ranks() != b.ranks())
      report(
          "ranks: {} and {}: arrays and numbers of ranks are not compared; weir checkpoint reshard makes a file of as many ranks",
          a.ranks(), b.ranks());
    else if (a.nodes != b.nodes)
      report("the nodes of the ranks are not the same");
  }

  void values(const std::string& what, const checkpoint::Values& a, const checkpoint::Values& b) {
    std::set<std::string> names;
    for (const auto* side : {&a, &b}) {
      for (const auto& [name, value] : *side) names.insert(name);
    }
    const auto text = [](const checkpoint::Values& side, const std::string& name) {
      const auto found = side.find(name);
      return found == side.end() ? std::string("none") : text_of(found->second);
    };
    for (const std::string& name : names) {
      if (const std::string x = text(a, name), y = text(b, name); x != y) report("{} {}: {} and {}", what, name, x, y);
    }
  }

  void compare(const Subject& a, const Subject& b) {
    values(a.words() + ":", a.about, b.about);
    for (const Dataset& dataset : a.datasets) {
      const Dataset* const other = b.find(dataset.name);
      if (other == nullptr)
        report("{}: only the first has dataset {}", a.words(), dataset.name);
      else
        compare(a, dataset, b, *other);
    }
    for (const Dataset& dataset : b.datasets) {
      if (a.find(dataset.name) == nullptr) report("{}: only the second has dataset {}", b.words(), dataset.name);
    }
  }

  void compare(const Subject& subject_a, const Dataset& a, const Subject& subject_b, const Dataset& b) {
    const std::string where = fmt::format("{}: {}", subject_a.words(), a.name);
    if (a.type != b.type || a.share != b.share || a.chunked != b.chunked)
      return report("{}: {}, {} and {}, {}", where, state_type_name(a.type), name_of(a.share), state_type_name(b.type),
                    name_of(b.share));
    if (a_.index.ranks() != b_.index.ranks()) return;
    std::optional<ChunkReader> reader_a, reader_b;  // empty for small datasets, which have no chunks
    if (a.chunked) {
      reader_a.emplace(a_.file, a_.index, subject_a, a);
      reader_b.emplace(b_.file, b_.index, subject_b, b);
    }
    for (std::size_t rank = 0; rank < a.pieces.size(); ++rank) {
      const checkpoint::Piece &mine = a.pieces[rank], &theirs = b.pieces[rank];
      if (mine.count != theirs.count) {
        const auto count = [](const checkpoint::Piece& piece) {
          return piece.present() ? fmt::format("{} elements", piece.count) : std::string("none");
        };
        report("{}, rank {}: {} and {}", where, rank, count(mine), count(theirs));
        continue;
      }
      if (mine.region != theirs.region) report("{}, rank {}: another part of the whole", where, rank);
      Difference difference;
      if (a.chunked)
        read_both(*reader_a, *reader_b, a, rank, difference);
      else if (mine.present())
        add(a, a.value(rank).data(), b.value(rank).data(), mine.count, difference);
      if (difference.elements == 0) continue;
      std::string text = fmt::format("{}, rank {}: {} of {} element{} differ{}", where, rank, difference.elements, mine.count,
                                     mine.count == 1 ? "" : "s", difference.elements == 1 ? "s" : "");
      if (a.type == StateType::text)
        text = fmt::format("{}, rank {}: '{}' and '{}'", where, rank, text_of(a, rank), text_of(b, rank));
      if (a.type == StateType::float32 || a.type == StateType::float64)
        text += fmt::format(", by at most {:.3g}{}", difference.largest, difference.not_numbers ? ", some are not finite" : "");
      lines_.push_back(std::move(text));
    }
    if (!a.chunked) return;
    done_ += reader_a->bytes_read() + reader_b->bytes_read();
    progress_.at(done_);
  }

  void read_both(ChunkReader& a, ChunkReader& b, const Dataset& dataset, std::size_t rank, Difference& difference) {
    const std::int64_t count = dataset.pieces[rank].count, step = at_once / dataset.element_bytes();
    for (std::int64_t first = 0; first < count; first += step) {
      const std::int64_t elements = std::min(step, count - first);
      a.read(rank, first, elements, bytes_a_.data());
      b.read(rank, first, elements, bytes_b_.data());
      add(dataset, bytes_a_.data(), bytes_b_.data(), elements, difference);
      progress_.at(done_ + a.bytes_read() + b.bytes_read());
    }
  }

  Side a_, b_;
  Buffer<std::byte> bytes_a_{at_once}, bytes_b_{at_once};
  std::vector<std::string> lines_;
  ByteProgress progress_;
  std::int64_t done_ = 0;
};

}  // namespace

int diff_checkpoints(const std::string& a, const std::string& b) {
  const std::vector<std::string> lines = Comparison(a, b).run();
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return lines.empty() ? 0 : status_different;
}

}  // namespace weir::cli
