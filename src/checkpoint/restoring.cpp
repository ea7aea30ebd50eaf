// Restores: all ranks check the file first. Once all have found that it fits, all write.
#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/delivery.hpp"
#include "checkpoint/packing.hpp"
#include "checkpoint/whole_file.hpp"
#include "communicator/input_error.hpp"

namespace weir::detail {
std::optional<std::int64_t> CheckpointState::restore(std::optional<std::int64_t> step) {
  (void)end_save();
  restore_.check_startable();
  began_ = Clock::now();
  restore_.launch([&] { return run_restore(step); });
  restore_.wait();
  return found_;
}

/// On rank 0: finds the files to restore from.
void CheckpointState::find_files(std::optional<std::int64_t> step) {
  if (!step) {
    older_ = folder_.newest_first();
    if (const auto lost = folder_.lost())
      log(comm->settings.log, LogLevel::warn,
          "checkpoint '{}': {} is not there, which the manifest names as the newest: it was removed, or its save was interrupted; "
          "{}",
          config.name, folder_.file_of(*lost),
          older_.empty() ? "there is no other" : fmt::format("step {} is taken", older_.front()));
    std::reverse(older_.begin(), older_.end());
    return;
  }
  older_ = {*step};
  const std::vector<std::int64_t> all = folder_.steps();
  if (std::binary_search(all.begin(), all.end(), *step)) return;
  std::string known;
  for (const std::int64_t s : all) known += fmt::format("{}{}", known.empty() ? "" : ", ", s);
  fail(WEIR_ERR_FILE, "there is no file {}: {}", folder_.file_of(*step),
       known.empty() ? "the folder has none" : "there are those of steps " + known);
}

/// On rank 0: reads everything except arrays.
void CheckpointState::read_found() {
  file_ = folder_.file_of(*found_);
  index_ = checkpoint::read_whole(file_);
  if (index_.step != *found_)
    fail(WEIR_ERR_FILE, "{} has step {}: it was renamed; give it its name again, checkpoint-{}.h5", file_, index_.step,
         index_.step);
  if (!config.run.empty() && !index_.run.empty() && index_.run != config.run)
    fail(WEIR_ERR_MISMATCH, "{} belongs to another run: it is of '{}', this one is '{}'", file_, index_.run, config.run);
}

/// Restores the step asked for, or the newest readable file.
task<void> CheckpointState::run_restore(std::optional<std::int64_t> step) {
  const Channel channel = restore_.channel();
  const StageScope stage = channel.stage(Stage::restore_file);
  card_ = {};
  card_.wanted = step.value_or(-1);
  older_.clear();
  co_await agree(channel, outcome_of([&] {
                   require(!step || *step >= 0, "step is {}: it must be at least 0{}", step.value_or(0), refused_by_binding);
                   if (is_first()) find_files(step);
                 }));
  std::exception_ptr newest;  // the error of the newest file
  for (;;) {
    try {
      co_await restore_next(channel, step);
      co_return;
    } catch (const AgreedError& error) {
      if (error.status() == WEIR_ERR_FILE && cards()[0].left > 0)
        log(comm->settings.log, comm->topology.rank() == 0 ? LogLevel::warn : LogLevel::info, "{}; an older file is tried",
            error.what());
      else if (newest && error.status() == WEIR_ERR_FILE)
        std::rethrow_exception(newest);
      else
        throw;
      if (!newest) newest = std::current_exception();
    }
  }
}

task<void> CheckpointState::restore_next(Channel channel, std::optional<std::int64_t> step) {
  // 1. Rank 0 reads everything except arrays, and broadcasts it.
  found_ = {};
  blob_.clear();
  const Outcome outcome = outcome_of([&] {
    if (!is_first() || older_.empty()) return;
    found_ = older_.back();
    older_.pop_back();
    card_.left = step || config.strict ? 0 : std::ssize(older_);
    read_found();
    blob_ = checkpoint::packed(index_);
  });
  card_.step = found_.value_or(-1);
  co_await agree(channel, outcome);
  for (const Card& card : cards()) {
    const auto words = [](std::int64_t wanted) { return wanted < 0 ? "the newest" : fmt::format("step {}", wanted); };
    if (card.wanted != cards()[0].wanted)
      fail_alike(WEIR_ERR_MISMATCH, "checkpoint '{}': ranks restore different steps: rank 0 restores {}, rank {} restores {}",
                 config.name, words(cards()[0].wanted), &card - cards().data(), words(card.wanted));
  }
  if (cards()[0].step < 0) co_return;
  found_ = cards()[0].step;
  file_ = folder_.file_of(*found_);
  co_await blobs_.broadcast(channel, blob_);

  // 2. Each rank shares the outline of what it has now.
  co_await agree(channel, outcome_of([&] {
                   if (!is_first()) index_ = checkpoint::unpacked<checkpoint::Index>(blob_);
                   outline_.clear();
                   for (const checkpoint::AddedSubject& subject : subjects_)
                     outline_.push_back(subject.outline(checkpoint::Purpose::restore));
                   check_subjects(index_, outline_, file_);
                   outline_blob_ = packed_outline(outline_);
                 }));
  co_await gather_outlines(channel);

  // 3. Each rank reads its part, and checks whether it fits.
  std::vector<SavedState> states;
  std::vector<std::unique_ptr<StateRestorer>> restorers;
  co_await agree(channel, outcome_of([&] { look(states, restorers); }));

  // 4. All ranks write.
  card_.left = 0;  // from here on, state has changed: no older file may be tried
  co_await agree(channel, outcome_of([&] {
                   for (std::size_t i = 0; i < subjects_.size(); ++i) {
                     if (!restorers[i]) continue;
                     restorers[i]->write();
                     subjects_[i].visit(*restorers[i], checkpoint::Purpose::restore);
                   }
                   for (const auto& [name, value] : index_.values) values_[name] = value;
                 }));
  statistics.step = *found_;
  statistics.ranks = static_cast<std::int64_t>(index_.ranks());
  statistics.seconds_restore = std::chrono::duration<double>(Clock::now() - began_).count();
  log(comm->settings.log, LogLevel::info, "rank {}: checkpoint '{}': step {} of {} ranks restored from {}, {:.3f} s",
      comm->topology.rank(), config.name, *found_, index_.ranks(), file_, statistics.seconds_restore);
}

task<void> CheckpointState::gather_outlines(Channel channel) {
  co_await blobs_.gather(channel, outline_blob_, all_blobs_);
  if (is_first()) blob_ = checkpoint::packed(all_blobs_);
  co_await blobs_.broadcast(channel, blob_);
  co_await agree(channel, outcome_of([&] {
                   outlines_known_.clear();  // outlines_ now describe a restore
                   outlines_.clear();
                   for (const Blob& blob : checkpoint::unpacked<std::vector<Blob>>(blob_))
                     outlines_.push_back(checkpoint::unpacked<checkpoint::Outline>(blob));
                 }));
}

void CheckpointState::look(std::vector<SavedState>& states, std::vector<std::unique_ptr<StateRestorer>>& restorers) {
  const checkpoint::File file = checkpoint::File::open_to_read(file_);
  checkpoint::Source source{.file = file,
                            .index = index_,
                            .rank = static_cast<std::size_t>(comm->topology.rank()),
                            .outlines = outlines_,
                            .same_layout = index_.nodes == nodes(),
                            .same_switches = index_.switches == switches()};
  states.reserve(subjects_.size());  // restorers keep references to elements
  restorers.resize(subjects_.size());
  for (std::size_t i = 0; i < subjects_.size(); ++i) {
    states.push_back(checkpoint::deliver(source, outline_[i]));
    if (states.back().fields.empty() && subjects_[i].kind == checkpoint::Kind::array) continue;
    restorers[i] = std::make_unique<StateRestorer>(states.back(), subjects_[i].words());
    try {
      subjects_[i].visit(*restorers[i], checkpoint::Purpose::restore);
      restorers[i]->check_all_visited();
    } catch (const Error& error) {
      if (error.status() != WEIR_ERR_ARGUMENT) throw;
      fail(WEIR_ERR_MISMATCH, "{}: {}", file_, error.what());
    }
  }
  statistics.bytes_read = source.bytes_read;
}

}  // namespace weir::detail
