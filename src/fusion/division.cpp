#include "fusion/division.hpp"

#include <algorithm>
#include <limits>

namespace weir::fusion {

Ends one_each(const Line& line) {
  Ends ends;
  for (std::size_t i = 1; i <= line.size(); ++i) ends.push_back(i);
  return ends;
}

Ends by_bytes(std::span<const Load> line, std::int64_t most) {
  Ends ends;
  std::int64_t bytes = 0;
  bool any_sparse = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool sparse = line[i].elements > 0, rides_along = sparse && !any_sparse && bytes < most;
    if (bytes > 0 && bytes + line[i].bytes > most && !rides_along) {
      ends.push_back(i);
      bytes = 0;
      any_sparse = false;
    }
    bytes += line[i].bytes;
    any_sparse = any_sparse || sparse;
  }
  if (!line.empty()) ends.push_back(line.size());
  return ends;
}

Ends tapered(std::span<const Load> line, std::int64_t most) {
  constexpr std::int64_t shares[] = {16, 4};
  // Moves a cut so that it does not separate dense tensors from the sparse one that they travel with.
  const auto behind_sparse = [&](std::size_t cut, std::size_t end) {
    while (cut > 0 && cut < end && line[cut - 1].elements == 0) ++cut;
    return cut;
  };
  std::size_t begin = 0, end = line.size();
  Ends ends, last;
  for (const std::int64_t share : shares) {
    const std::size_t whole = end;
    for (std::int64_t room = most / share; end > 0 && line[end - 1].bytes <= room; --end) room -= line[end - 1].bytes;
    end = behind_sparse(end, whole);
    if (end < whole) last.push_back(whole);
  }
  for (const std::int64_t share : shares) {
    if (begin == end) break;
    begin = behind_sparse(begin + by_bytes(line.subspan(begin, end - begin), most / share).front(), end);
    ends.push_back(begin);
  }
  for (const std::size_t next : by_bytes(line.subspan(begin, end - begin), most)) ends.push_back(begin + next);
  ends.insert(ends.end(), last.rbegin(), last.rend());
  return ends;
}

Ends earliest(const Line& line, const LinearCost& cost, std::size_t most_buffers) {
  // done[i]: when the exchanges of the first i tensors end in their best division, with a small price added per exchange.
  const std::size_t n = line.size();
  constexpr std::size_t most_tensors = 4096;  // of a stretch, since time grows with their number
  const double price = cost.startup / 10;
  std::vector<double> done(n + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> begin(n + 1, 0), buffers(n + 1, 0);
  done[0] = 0;
  for (std::size_t i = 1; i <= n; ++i) {
    std::int64_t bytes = 0;
    double ready = 0;
    for (std::size_t j = i; j-- > 0 && i - j <= most_tensors;) {
      bytes += line[j].bytes;
      ready = std::max(ready, line[j].ready);
      const double end = std::max(done[j], ready) + cost(bytes) + price;
      if (buffers[j] + 1 > most_buffers && j > 0) continue;
      if (end >= done[i]) continue;
      done[i] = end;
      begin[i] = j;
      buffers[i] = buffers[j] + 1;
    }
  }
  Ends ends;
  for (std::size_t i = n; i > 0; i = begin[i]) ends.push_back(i);
  std::reverse(ends.begin(), ends.end());
  return ends;
}

Division divide(const Line& line, const Ends& ends) {
  constexpr std::int64_t most_elements = std::numeric_limits<std::uint32_t>::max();
  Division division;
  std::size_t i = 0;
  for (const std::size_t end : ends) {
    for (std::int64_t elements = 0; i < end; ++i) {
      if (elements == 0 || elements + line[i].elements > most_elements) {
        if (elements > 0 || division.empty() || !division.back().empty()) division.emplace_back();
        elements = 0;
      }
      elements += std::max<std::int64_t>(1, line[i].elements);
      division.back().push_back(line[i].tensor);
    }
  }
  for (std::vector<int>& buffer : division) std::sort(buffer.begin(), buffer.end());
  return division;
}

LinearCost fit(std::span<const Sample> samples, const LinearCost& prior) {
  double count = 0, x = 0, y = 0, predicted = 0;
  for (const Sample& sample : samples) {
    ++count;
    x += static_cast<double>(sample.bytes);
    y += sample.seconds;
    predicted += prior(sample.bytes);
  }
  if (count == 0) return prior;
  double xx = 0, xy = 0;
  for (const Sample& sample : samples) {
    const double dx = static_cast<double>(sample.bytes) - x / count;
    xx += dx * dx;
    xy += dx * (sample.seconds - y / count);
  }
  const double slope = xx > 0 ? xy / xx : 0, startup = (y - slope * x) / count;
  if (slope > 0 && startup > 0) return {startup, slope};
  const double scale = predicted > 0 ? y / predicted : 1;
  return {prior.startup * scale, prior.per_byte * scale};
}

}  // namespace weir::fusion
