#include "cli/sum_by_mpi.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

namespace weir::cli {
namespace {

/// Merges two sorted lists; entries with the same index are added. Returns the count.
template <class T>
std::int64_t merge_two(const std::int32_t* a, const T* a_values, std::int64_t a_count, const std::int32_t* b, const T* b_values,
                       std::int64_t b_count, std::int32_t* indices, T* values) {
  std::int64_t i = 0, j = 0, count = 0;
  while (i < a_count && j < b_count) {
    const bool takes_a = a[i] <= b[j], takes_b = b[j] <= a[i];
    indices[count] = takes_a ? a[i] : b[j];
    values[count++] = takes_a && takes_b ? a_values[i] + b_values[j] : takes_a ? a_values[i] : b_values[j];
    i += takes_a;
    j += takes_b;
  }
  for (; i < a_count; ++i, ++count) indices[count] = a[i], values[count] = a_values[i];
  for (; j < b_count; ++j, ++count) indices[count] = b[j], values[count] = b_values[j];
  return count;
}

/// Returns the words of a code that hold `count` values.
template <class T>
constexpr std::int64_t value_words(std::int64_t count) {
  return (count * static_cast<std::int64_t>(sizeof(T)) + 7) / 8;
}

/// What comes before the values of a run.
struct RunHead {
  std::int32_t first, length;
};
RunHead head_at(const std::int64_t* word) { return std::bit_cast<RunHead>(*word); }

/// Returns the words of a code.
template <class T>
std::int64_t words_of(const std::int64_t* code) {
  std::int64_t words = 1;
  for (std::int64_t run = 0; run < code[0]; ++run) words += 1 + value_words<T>(head_at(code + words).length);
  return words;
}

/// Reads the entries of a code in order.
template <class T>
class CodeReader {
 public:
  explicit CodeReader(const std::int64_t* code) : next_(code + 1), runs_(code[0]) { open(); }

  [[nodiscard]] bool has_entry() const { return left_ > 0; }
  [[nodiscard]] std::int32_t index() const { return index_; }
  [[nodiscard]] T value() const {
    T value;
    std::memcpy(&value, value_, sizeof value);
    return value;
  }
  void advance() {
    ++index_;
    value_ += sizeof(T);
    if (--left_ == 0) open();
  }

 private:
  void open() {
    if (runs_-- <= 0) return;
    const RunHead head = head_at(next_);
    index_ = head.first;
    left_ = head.length;
    value_ = reinterpret_cast<const std::byte*>(next_ + 1);
    next_ += 1 + value_words<T>(left_);
  }

  const std::int64_t* next_;
  std::int64_t runs_;
  std::int32_t index_ = 0, left_ = 0;
  const std::byte* value_ = nullptr;
};

/// Writes entries in order, as runs.
template <class T>
class CodeWriter {
 public:
  explicit CodeWriter(std::int64_t* code) : code_(code), next_(code + 1) { code_[0] = 0; }

  void add(std::int32_t index, T value) {
    if (code_[0] == 0 || index != head_.first + head_.length) {
      close();
      head_ = {index, 0};
      ++code_[0];
    }
    std::memcpy(reinterpret_cast<std::byte*>(next_ + 1) + head_.length * sizeof(T), &value, sizeof value);
    ++head_.length;
  }
  /// Returns the words of the code.
  std::int64_t finish() {
    close();
    return next_ - code_;
  }

 private:
  void close() {
    if (head_.length == 0) return;
    *next_ = std::bit_cast<std::int64_t>(head_);
    next_ += 1 + value_words<T>(head_.length);
  }

  std::int64_t *code_, *next_;
  RunHead head_{0, 0};
};

/// What MPI_Reduce calls: `mine` becomes the sum of both. A code is one element of the data type.
template <class T>
void add_codes(void* theirs, void* mine, int* length, MPI_Datatype* type) {
  if (*length == 0) return;
  static thread_local std::vector<std::int64_t> spare_code;  // MPI gives no third place
  int bytes = 0;
  MPI_Type_size(*type, &bytes);
  spare_code.resize(static_cast<std::size_t>(bytes) / sizeof(std::int64_t));
  CodeReader<T> a(static_cast<const std::int64_t*>(theirs)), b(static_cast<const std::int64_t*>(mine));
  CodeWriter<T> sum(spare_code.data());
  while (a.has_entry() || b.has_entry()) {
    const bool takes_a = !b.has_entry() || (a.has_entry() && a.index() <= b.index());
    const bool takes_b = !a.has_entry() || (b.has_entry() && b.index() <= a.index());
    sum.add(takes_a ? a.index() : b.index(), takes_a && takes_b ? a.value() + b.value() : takes_a ? a.value() : b.value());
    if (takes_a) a.advance();
    if (takes_b) b.advance();
  }
  std::memcpy(mine, spare_code.data(), static_cast<std::size_t>(sum.finish()) * sizeof(std::int64_t));
}

}  // namespace

template <class T>
SumByMpi<T>::~SumByMpi() {
  if (code_words_ == 0) return;
  MPI_Op_free(&add_codes_);
  MPI_Type_free(&code_type_);
}

template <class T>
void SumByMpi<T>::gather(const std::vector<std::int32_t>& indices, const std::vector<T>& values) {
  const auto mine = static_cast<int>(indices.size());
  MPI_Allgather(&mine, 1, MPI_INT, counts_.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::partial_sum(counts_.begin(), counts_.end(), begins_.begin() + 1);
  const auto total = static_cast<std::size_t>(begins_.back());
  for (auto* list : {&all_indices_, &merged_indices_}) list->resize(total);
  for (auto* list : {&all_values_, &merged_values_}) list->resize(total);
  MPI_Allgatherv(indices.data(), mine, MPI_INT32_T, all_indices_.data(), counts_.data(), begins_.data(), MPI_INT32_T,
                 MPI_COMM_WORLD);
  MPI_Allgatherv(values.data(), mine, mpi_type<T>(), all_values_.data(), counts_.data(), begins_.data(), mpi_type<T>(),
                 MPI_COMM_WORLD);
}

template <class T>
void SumByMpi<T>::gather_and_merge(const std::vector<std::int32_t>& indices, const std::vector<T>& values) {
  gather(indices, values);
  std::size_t lists = counts_.size();
  while (lists > 1) {
    int written = 0;
    for (std::size_t i = 0; i < lists; i += 2) {
      const int begin = begins_[i], middle = begins_[i + 1], end = begins_[std::min(i + 2, lists)];
      const std::int64_t count =
          merge_two(all_indices_.data() + begin, all_values_.data() + begin, middle - begin, all_indices_.data() + middle,
                    all_values_.data() + middle, end - middle, merged_indices_.data() + written, merged_values_.data() + written);
      begins_[i / 2] = written;
      written += static_cast<int>(count);
    }
    lists = (lists + 1) / 2;
    begins_[lists] = written;
    all_indices_.swap(merged_indices_);
    all_values_.swap(merged_values_);
  }
  entries_ = begins_[1];
  begins_[0] = 0;
}

template <class T>
void SumByMpi<T>::gather_and_add(const std::vector<std::int32_t>& indices, const std::vector<T>& values, std::vector<T>& dense) {
  gather(indices, values);
  std::fill(dense.begin(), dense.end(), T{0});
  for (std::size_t i = 0; i < all_indices_.size(); ++i) dense[static_cast<std::size_t>(all_indices_[i])] += all_values_[i];
}

template <class T>
void SumByMpi<T>::make_operation(std::int64_t words) {
  if (words <= code_words_) return;
  if (code_words_ > 0)
    MPI_Type_free(&code_type_);
  else
    MPI_Op_create(&add_codes<T>, 1, &add_codes_);
  code_words_ = words;
  MPI_Type_contiguous(static_cast<int>(words), MPI_INT64_T, &code_type_);
  MPI_Type_commit(&code_type_);
  for (auto* code : {&code_, &sum_code_}) code->resize(static_cast<std::size_t>(words));
}

template <class T>
void SumByMpi<T>::reduce_runs(const std::vector<std::int32_t>& indices, const std::vector<T>& values) {
  const auto entries = static_cast<std::int64_t>(indices.size());
  code_.resize(std::max(code_.size(), static_cast<std::size_t>(1 + 2 * entries)));
  CodeWriter<T> own(code_.data());
  for (std::size_t i = 0; i < indices.size(); ++i) own.add(indices[i], values[i]);
  std::array<std::int64_t, 2> all = {own.finish(), entries};
  MPI_Allreduce(MPI_IN_PLACE, all.data(), 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  const std::int64_t most = std::min(all[1], count_);
  // A sum is no longer than its codes together, nor than a code of every second element, or of all.
  make_operation(std::min(all[0], count_ + 2));
  MPI_Reduce(code_.data(), sum_code_.data(), 1, code_type_, add_codes_, 0, MPI_COMM_WORLD);

  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::int64_t words = rank == 0 ? words_of<T>(sum_code_.data()) : 0;
  MPI_Bcast(&words, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  MPI_Bcast(sum_code_.data(), static_cast<int>(words), MPI_INT64_T, 0, MPI_COMM_WORLD);
  all_indices_.resize(static_cast<std::size_t>(most));
  all_values_.resize(all_indices_.size());
  entries_ = 0;
  for (CodeReader<T> sum(sum_code_.data()); sum.has_entry(); sum.advance()) {
    all_indices_[static_cast<std::size_t>(entries_)] = sum.index();
    all_values_[static_cast<std::size_t>(entries_++)] = sum.value();
  }
}

template class SumByMpi<float>;
template class SumByMpi<double>;
template class SumByMpi<std::int32_t>;
template class SumByMpi<std::int64_t>;

}  // namespace weir::cli
