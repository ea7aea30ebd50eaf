// Saves: takes a snapshot, then writes the file while the caller continues.
#include <ctime>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/origin.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/hdf5_file.hpp"
#include "checkpoint/packing.hpp"
#include "checkpoint/subject.hpp"
#include "checkpoint/whole_file.hpp"
#include "collectives/control.hpp"
#include "communicator/input_error.hpp"

namespace weir::detail {
namespace {

using checkpoint::Dataset;
using checkpoint::OutgoingArray;
using checkpoint::Packer;
using checkpoint::Unpacker;

constexpr std::int64_t alignment = 64;

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Ends with the work, or after a second.
class Patience final : public Completion {
 public:
  explicit Patience(Completion& work) : work_(work) {}
  [[nodiscard]] bool reached() override { return work_.reached() || Clock::now() - began_ > std::chrono::seconds(1); }

 private:
  Completion& work_;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

/// Returns the outcome of the previous save if this rank has not yet reported it. Other ranks may have.
Outcome CheckpointState::end_save() {
  Outcome unheard;
  try {
    save_.wait();
  } catch (const AgreedError& error) {
    unheard.set(error.status(), error.what());
  }
  save_.check_startable();
  return unheard;
}

void CheckpointState::start_save(std::int64_t step) {
  const Outcome unheard = end_save();
  began_ = Clock::now();
  card_ = {};
  card_.step = step;
  card_.outcome = unheard.failed() ? unheard : outcome_of([&] {
    require(step >= 0, "step is {}: it must be at least 0{}", step, refused_by_binding);
    take_snapshot();
  });
  statistics.seconds_snapshot = std::chrono::duration<double>(Clock::now() - began_).count();
  save_.launch([&] { return run_save(step); });
}

void CheckpointState::take_snapshot() {
  checkpoint::Outline outline;
  std::int64_t bytes = 0;
  for (const checkpoint::AddedSubject& subject : subjects_) {
    outline.push_back(subject.outline(checkpoint::Purpose::save));
    for (const Dataset& own : outline.back().datasets)
      bytes += own.chunked ? aligned(own.pieces.front().count * own.element_bytes()) : 0;
  }
  outline_ = std::move(outline);
  if (snapshot_.size() < bytes) {
    snapshot_ = {};
    snapshot_ = Buffer<std::byte>(bytes);
  }
  statistics.snapshot_bytes = snapshot_.size();
  arrays_.clear();
  std::byte* to = snapshot_.data();
  for (const checkpoint::AddedSubject& subject : subjects_) {
    checkpoint::FieldVisitor visitor(subject.words(),
                                     [&](const FieldVisit& field, const void* data, const StateVisitor::Copy* copy) {
                                       if (copy == nullptr) return;
                                       const std::int64_t size = field.bytes();
                                       if (size > 0) (*copy)(to, data, size);
                                       OutgoingArray& array = arrays_.emplace_back();
                                       array.element_bytes = state_type_bytes(field.type);
                                       array.elements = {to, static_cast<std::size_t>(size)};
                                       to += aligned(size);
                                     });
    subject.visit(visitor, checkpoint::Purpose::save);
  }
  outline_blob_ = packed_outline(outline_);
  card_.outline = checkpoint::checksum(std::as_bytes(std::span(outline_blob_)));
}

task<void> CheckpointState::run_save(std::int64_t step) {
  const Channel channel = save_.channel();
  StageScope stage = channel.stage(Stage::prepare_file);
  // 1. Ranks agree whether their snapshots succeeded. If chunks are those of the last save, checksums are computed meanwhile.
  // Compression takes long, so it begins only once all snapshots have succeeded.
  const auto me = static_cast<std::size_t>(comm->topology.rank());
  const bool as_before = !outlines_known_.empty() && outlines_known_[me] == card_.outline;
  if (as_before && config.compression == 0 && !card_.outcome.failed()) begin_preparing();
  words_ = {.step = static_cast<std::uint64_t>(card_.step),
            .step_turned = ~static_cast<std::uint64_t>(card_.step),
            .changed = as_before ? 0u : 1u};
  co_await finish_work(channel);
  if (words_.step != ~words_.step_turned) {
    co_await share_cards(channel);
    for (const Card& card : cards()) {
      if (card.step != cards()[0].step)
        fail_alike(WEIR_ERR_MISMATCH, "checkpoint '{}': ranks save different steps: rank 0 saves {}, rank {} saves {}", config.name,
                   cards()[0].step, &card - cards().data(), card.step);
    }
  }

  // 2. In the first save, and if the outline of any rank has changed, arrays are cut into chunks anew.
  if (words_.changed != 0) {
    stage.next(Stage::agree_on_file);
    co_await share_outlines(channel);
    stage.next(Stage::prepare_file);
  }
  if (words_.changed != 0 || config.compression != 0) {
    begin_preparing();
    co_await finish_work(channel);
  }

  // 3. Rank 0 lays out the file, and sends each rank the addresses of its chunks.
  stage.next(Stage::agree_on_file);
  co_await lay_out(channel, step);

  // 4. All ranks write.
  stage.next(Stage::write_file);
  const std::string aside = folder_.unfinished_of(step);
  begin_work([this, aside] {
    bytes_written_ = 0;
    if (arrays_.empty() && !is_first()) return;
    checkpoint::File file = checkpoint::File::open_to_write(aside);
    if (is_first()) checkpoint::write_sealed(file, structure_);
    for (const OutgoingArray& array : arrays_) bytes_written_ += checkpoint::write(file, array);
    file.close();
  });
  try {
    co_await finish_work(channel);
    // 5. Once a node has written, one of its ranks syncs. Several would only take turns.
    if (comm->topology.local_rank(comm->topology.rank()) == 0) {
      begin_work([aside] {
        checkpoint::File file = checkpoint::File::open_to_write(aside);
        file.sync();
        file.close();
      });
    }
    co_await finish_work(channel);
    // 6. Rank 0 gives the file its final name.
    stage.next(Stage::publish_file);
    if (is_first()) {
      begin_work([this, step] { folder_.publish(step, config.keep); });
    }
    co_await finish_work(channel);
  } catch (const AgreedError&) {
    if (is_first()) folder_.give_up(step);
    throw;
  }
  statistics.step = step;
  statistics.bytes_written = bytes_written_;
  statistics.seconds_save = std::chrono::duration<double>(Clock::now() - began_).count();
  log(comm->settings.log, LogLevel::info, "rank {}: checkpoint '{}': step {}: {} bytes written, {:.3f} s", comm->topology.rank(),
      config.name, step, bytes_written_, statistics.seconds_save);
}

/// Makes a blob for each rank of what put(packer, dataset, rank) packs about each of its arrays.
template <class Put>
void CheckpointState::tell_of_arrays(std::vector<checkpoint::Subject>& subjects, Put&& put) {
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    all_blobs_[rank].assign(1, 0);
    Packer pack(all_blobs_[rank]);
    for_datasets(subjects, outlines_[rank], [&](Dataset& dataset, const Dataset&) {
      if (dataset.chunked) put(pack, dataset, rank);
    });
  }
}

task<void> CheckpointState::share_outlines(Channel channel) {
  outlines_known_.clear();
  co_await share_cards(channel);
  std::vector<std::uint64_t> outlines;
  for (const Card& card : cards()) outlines.push_back(card.outline);
  const std::function<void()> cut = [&] {
    outlines_.clear();
    for (const Blob& blob : all_blobs_) outlines_.push_back(checkpoint::unpacked<checkpoint::Outline>(blob));
    put_together_ = put_together(outlines_, config.compression);
    tell_of_arrays(put_together_, [](Packer& pack, Dataset& dataset, std::size_t) { pack(dataset.chunk_elements); });
  };
  co_await through_first(channel, outline_blob_, cut);
  Unpacker unpack{std::span(blob_).subspan(1)};
  chunk_elements_.clear();
  while (!unpack.empty()) unpack(chunk_elements_.emplace_back());
  outlines_known_ = std::move(outlines);
}

/// Gathers `mine` of all ranks on rank 0. There, make() turns these blobs into one for each rank, which begins with a byte 0. If
/// that fails, all ranks throw rank 0's error.
task<void> CheckpointState::through_first(Channel channel, const Blob& mine, const std::function<void()>& make) {
  co_await blobs_.gather(channel, mine, all_blobs_);
  Outcome outcome;
  if (is_first()) {
    outcome = outcome_of(make);
    if (outcome.failed()) {
      for (Blob& blob : all_blobs_) blob.assign(1, 1);
    }
  }
  co_await blobs_.scatter(channel, all_blobs_, blob_);
  if (blob_.front() != 0) co_await agree(channel, outcome);
}

void CheckpointState::begin_preparing() {
  for (std::size_t i = 0; i < arrays_.size(); ++i) arrays_[i].chunk_elements = chunk_elements_[i];
  begin_work([this] {
    for (OutgoingArray& array : arrays_) checkpoint::prepare(array, config.compression);
  });
}

/// Returns what rank 0 needs besides the outline, in its order: small values, and sizes and checksums of chunks.
Blob CheckpointState::report() const {
  Blob blob;
  Packer pack(blob);
  auto array = arrays_.begin();
  for (const checkpoint::Subject& subject : outline_) {
    for (const Dataset& own : subject.datasets) {
      pack.bytes(own.values.data(), own.values.size());
      if (!own.chunked) continue;
      for (const checkpoint::Chunk& chunk : array++->chunks) pack(chunk.bytes, chunk.checksum);
    }
  }
  return blob;
}

void CheckpointState::merge_reports(checkpoint::Index& index) {
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    Unpacker unpack(all_blobs_[rank]);
    for_datasets(index.subjects, outlines_[rank], [&](Dataset& dataset, const Dataset& own) {
      if (own.chunked) {
        for (checkpoint::Chunk& chunk : dataset.chunks_at(rank)) unpack(chunk.bytes, chunk.checksum);
      } else {
        const auto row = static_cast<std::size_t>(dataset.largest_piece() * dataset.element_bytes());
        const auto bytes = static_cast<std::size_t>(own.pieces.front().count * own.element_bytes());
        unpack.bytes(dataset.values.data() + rank * row, bytes);
      }
    });
  }
}

/// Locks the folder: two runs in one folder would each take the other's files for its own.
void CheckpointState::take_folder() {
  if (lock_) return;
  lock_.emplace(folder_.path());
  if (!lock_->refused()) return;
  lock_.reset();
  fail(WEIR_ERR_FILE,
       "another run, or another checkpoint of this one, saves into {} at present: give each a folder of its own, or wait for it to "
       "end",
       folder_.path());
}

task<void> CheckpointState::lay_out(Channel channel, std::int64_t step) {
  blob_ = report();
  const std::function<void()> lay_out_file = [&] {
    try {
      take_folder();
      index_ = {.step = step,
                .compression = config.compression,
                .run = config.run,
                .written = utc_text(std::time(nullptr)),
                .weir = version_text(),
                .nodes = nodes(),
                .switches = switches(),
                .values = values_,
                .subjects = put_together_};
      merge_reports(index_);
      structure_ = checkpoint::lay_out(index_);
      tell_of_arrays(index_.subjects, [](Packer& pack, Dataset& dataset, std::size_t rank) {
        for (const checkpoint::Chunk& chunk : dataset.chunks_at(rank)) pack(chunk.address);
      });
      (void)checkpoint::File::create(folder_.unfinished_of(step));
    } catch (...) {
      if (lock_) folder_.give_up(step);  // without the lock the file belongs to another run
      throw;
    }
  };
  co_await through_first(channel, blob_, lay_out_file);
  Unpacker unpack{std::span(blob_).subspan(1)};
  for (OutgoingArray& array : arrays_) {
    for (checkpoint::Chunk& chunk : array.chunks) unpack(chunk.address);
  }
}

void CheckpointState::begin_work(std::function<void()> work) {
  card_.outcome = outcome_of([&] { worker_.begin(std::move(work)); });
  working_ = !card_.outcome.failed();
}

/// Waits for the work of all ranks. However long it takes, no rank waits for a message longer than a second.
task<void> CheckpointState::finish_work(Channel channel) {
  for (;;) {
    if (working_) {
      Patience patience(worker_);
      co_await channel.done(patience);
    }
    const bool reached = !working_ || worker_.reached();
    if (reached && working_) {
      card_.outcome = worker_.outcome();
      working_ = false;
    }
    words_.state = !reached ? Words::works : card_.outcome.failed() ? Words::failed : Words::done;
    constexpr std::int64_t count = sizeof(Words) / sizeof(std::uint64_t);
    co_await allreduce_control(channel, &words_.state, count, count, &scratch_words_.state);
    if (words_.state != Words::works) break;
  }
  if (words_.state == Words::failed) co_await agree(channel, card_.outcome);
}

}  // namespace weir::detail
