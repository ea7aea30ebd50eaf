// checkpoint.hpp: the state of a checkpoint on one rank: the subjects added, the save in flight, and restoring.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <weir/checkpoint.hpp>

#include "base/buffer.hpp"
#include "checkpoint/chunk_io.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/layout.hpp"
#include "checkpoint/subject.hpp"
#include "checkpoint/whole_file.hpp"
#include "checkpoint/worker.hpp"
#include "collectives/blobs.hpp"
#include "communicator/asynchronous_call.hpp"

namespace weir::detail {

/// A save or a restore.
class CheckpointCall final : public AsynchronousCall {
 public:
  using AsynchronousCall::AsynchronousCall;
  using AsynchronousCall::launch;
};

/// Implements Checkpoint. After a run breaks off, its messages may still read and write the members of this class.
class CheckpointState {
 public:
  CheckpointState(std::shared_ptr<CommunicatorState> communicator, CheckpointConfig configuration, Lease lease);

  void add(checkpoint::AddedSubject subject);
  void set(std::string_view name, checkpoint::Value value);
  /// `type` is an index among the types of Value. Throws Error(WEIR_ERR_ARGUMENT) if there is no value of this name and type.
  [[nodiscard]] const checkpoint::Value& value(std::string_view name, std::size_t type) const;
  void start_save(std::int64_t step);
  [[nodiscard]] std::optional<std::int64_t> restore(std::optional<std::int64_t> step);
  [[nodiscard]] bool stop_requested();
  /// Ends the state for its owner, like detail::retire.
  [[nodiscard]] bool retire() noexcept { return detail::retire(save_); }

  [[nodiscard]] AsynchronousCall& save() { return save_; }
  [[nodiscard]] const checkpoint::Folder& folder() const { return folder_; }
  /// Throws Error(WEIR_ERR_ARGUMENT) if the folder has files of another run. Not collective.
  void check_run() const;

  const std::shared_ptr<CommunicatorState> comm;
  const CheckpointConfig config;
  CheckpointStatistics statistics;

 private:
  /// What ranks exchange in a restore, and in a save if one has failed or if outlines or steps differ.
  struct Card {
    Outcome outcome;
    std::int64_t step = 0;
    std::uint64_t outline = 0;  ///< checksum of the outline
    std::int64_t wanted = -1;   ///< in a restore: the requested step; -1: the newest
    std::int64_t left = 0;      ///< number of older files that rank 0 may try next if this one is damaged
  };

  /// What each rank reports when it has done its part. An allreduce takes the maximum of each word.
  struct Words {
    static constexpr std::uint64_t done = 0, failed = 1, works = 2;

    std::uint64_t state = done;
    std::uint64_t step = 0, step_turned = 0;  ///< step_turned is ~step: its maximum is ~ of the smallest step
    std::uint64_t changed = 0;                ///< 1 if the outline differs from that of the last save
  };

  [[nodiscard]] bool is_first() const { return comm->topology.rank() == 0; }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm->topology.size()); }
  [[nodiscard]] std::vector<std::int64_t> nodes() const;
  [[nodiscard]] std::vector<std::int64_t> switches() const;

  // Used by save and restore. After agree() either all ranks continue, or all have thrown the same error.
  task<void> agree(Channel channel, Outcome outcome);
  task<void> share_cards(Channel channel);
  [[nodiscard]] std::span<const Card> cards() const;

  // save
  [[nodiscard]] Outcome end_save();
  void take_snapshot();
  task<void> run_save(std::int64_t step);
  task<void> share_outlines(Channel channel);
  void take_folder();
  task<void> lay_out(Channel channel, std::int64_t step);
  task<void> through_first(Channel channel, const Blob& mine, const std::function<void()>& make);
  void begin_preparing();
  [[nodiscard]] Blob report() const;
  void merge_reports(checkpoint::Index& index);
  template <class Put>
  void tell_of_arrays(std::vector<checkpoint::Subject>& subjects, Put&& put);
  void begin_work(std::function<void()> work);
  task<void> finish_work(Channel channel);

  // restore
  task<void> run_restore(std::optional<std::int64_t> step);
  task<void> restore_next(Channel channel, std::optional<std::int64_t> step);
  void find_files(std::optional<std::int64_t> step);
  void read_found();
  task<void> gather_outlines(Channel channel);
  void look(std::vector<SavedState>& states, std::vector<std::unique_ptr<StateRestorer>>& restorers);

  Lease lease_;
  checkpoint::Folder folder_;
  std::optional<checkpoint::FolderLock> lock_;  // on rank 0, from the first save
  std::vector<checkpoint::AddedSubject> subjects_;
  checkpoint::Values values_;

  Buffer<std::byte> card_bytes_;  // this rank's, all ranks', scratch
  BlobExchange blobs_;
  Blob blob_;
  std::vector<Blob> all_blobs_;
  Words words_, scratch_words_;

  // State of a save, beginning with its snapshot.
  Card card_;
  Clock::time_point began_{};
  checkpoint::Outline outline_;
  Blob outline_blob_;
  Buffer<std::byte> snapshot_;
  std::vector<checkpoint::OutgoingArray> arrays_;  // in the order of the outline
  checkpoint::Structure structure_;                // on rank 0
  std::int64_t bytes_written_ = 0;
  // State kept from one save to the next.
  std::vector<std::uint64_t> outlines_known_;      // checksums of all ranks' outlines
  std::vector<std::int64_t> chunk_elements_;       // of arrays_
  std::vector<checkpoint::Outline> outlines_;      // of all ranks, on rank 0
  std::vector<checkpoint::Subject> put_together_;  // on rank 0

  // State of a restore.
  std::string file_;
  std::vector<std::int64_t> older_;  // on rank 0: steps of files left to restore from; the next one to try is the last
  std::optional<std::int64_t> found_;
  checkpoint::Index index_;

  CheckpointCall save_, restore_;
  checkpoint::Worker worker_;  // last: it must end before the members that it works on
  bool working_ = false;
};

/// Collective. See Checkpoint.
[[nodiscard]] std::shared_ptr<CheckpointState> make_checkpoint(std::shared_ptr<CommunicatorState> comm,
                                                               const CheckpointConfig& config);

}  // namespace weir::detail
