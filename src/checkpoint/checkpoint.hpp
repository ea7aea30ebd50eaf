// checkpoint.hpp: a checkpoint on one rank: what was added, the save in flight, and restoring.
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
#include "checkpoint/seal.hpp"
#include "checkpoint/subject.hpp"
#include "checkpoint/worker.hpp"
#include "collectives/blobs.hpp"
#include "communicator/asynchronous_call.hpp"

namespace weir::detail {

/// save or restore.
class CheckpointCall final : public AsynchronousCall {
 public:
  using AsynchronousCall::AsynchronousCall;
  using AsynchronousCall::launch;
};

/// See Checkpoint. Messages of a run that breaks off may still read and write what is a member here.
class CheckpointState {
 public:
  CheckpointState(std::shared_ptr<CommunicatorState> communicator, CheckpointConfig configuration, Lease lease);

  void add(checkpoint::AddedSubject subject);
  void set(std::string_view name, checkpoint::Value value);
  /// Throws Error(WEIR_ERR_ARGUMENT) where the checkpoint has no value of that name and type ("integer", say).
  template <class T>
  [[nodiscard]] const T& value(std::string_view name, std::string_view type) const;
  void start_save(std::int64_t step);
  [[nodiscard]] std::optional<std::int64_t> restore(std::optional<std::int64_t> step);
  [[nodiscard]] bool stop_requested();
  /// Ends it for its owner, as detail::retire.
  [[nodiscard]] bool retire() noexcept { return detail::retire(save_); }

  [[nodiscard]] AsynchronousCall& save() { return save_; }
  [[nodiscard]] const checkpoint::Folder& folder() const { return folder_; }
  /// Throws Error(WEIR_ERR_ARGUMENT) where the folder has files of another run. Not collective.
  void check_run() const;

  const std::shared_ptr<CommunicatorState> comm;
  const CheckpointConfig config;
  CheckpointStatistics statistics;

 private:
  /// What every rank tells every other where something has failed, and of outlines that have changed.
  struct Card {
    Outcome outcome;
    std::int64_t step = 0;
    std::uint64_t outline = 0;  ///< checksum of the outline
    std::int64_t wanted = -1;   ///< of a restore: the step that is asked for; -1: the newest
    std::int64_t left = 0;      ///< older files, of which rank 0 may take the next where this one is damaged
  };

  /// What ranks tell when they have done their part. They agree on the largest of each.
  struct Words {
    static constexpr std::uint64_t done = 0, failed = 1, works = 2;

    std::uint64_t state = done;
    std::uint64_t step = 0, step_turned = 0;  ///< ~step, whose largest is ~ of the smallest step
    std::uint64_t changed = 0;                ///< the outline is not that of the last save
  };

  [[nodiscard]] bool is_first() const { return comm->topology.rank() == 0; }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(comm->topology.size()); }
  [[nodiscard]] std::vector<std::int64_t> nodes() const;
  [[nodiscard]] std::vector<std::int64_t> switches() const;

  // What both have. After agree() all ranks go on, or all have thrown the same.
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
  task<void> tell(Channel channel, const std::function<void()>& make);
  void begin_preparing();
  [[nodiscard]] Blob told() const;
  void merge_told(checkpoint::Index& index);
  void tell_addresses(const checkpoint::Index& index);
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
  std::optional<checkpoint::FolderLock> lock_;  // on rank 0, from the first save on
  std::vector<checkpoint::AddedSubject> subjects_;
  checkpoint::Values values_;

  Buffer<std::byte> card_bytes_;  // mine, all ranks', scratch
  BlobExchange blobs_;
  Blob blob_;
  std::vector<Blob> all_blobs_;
  Words words_, scratch_words_;

  // A save, from its snapshot on.
  Card card_;
  Clock::time_point began_{};
  checkpoint::Outline outline_;
  Blob outline_blob_;
  Buffer<std::byte> snapshot_;
  std::vector<checkpoint::OutgoingArray> arrays_;  // in the order of the outline
  checkpoint::Structure structure_;                // on rank 0
  std::int64_t bytes_written_ = 0;
  // What does not change from one save to the next.
  std::vector<std::uint64_t> outlines_known_;      // checksums of all ranks' outlines
  std::vector<std::int64_t> chunk_elements_;       // of arrays_
  std::vector<checkpoint::Outline> outlines_;      // of all ranks, on rank 0
  std::vector<checkpoint::Subject> put_together_;  // on rank 0

  // A restore.
  std::string file_;
  std::vector<std::int64_t> older_;  // on rank 0: files that are left to restore from, the one to take next last
  std::optional<std::int64_t> found_;
  checkpoint::Index index_;

  CheckpointCall save_, restore_;
  checkpoint::Worker worker_;  // last: it ends before what it works on
  bool working_ = false;
};

/// Collective; see Checkpoint.
[[nodiscard]] std::shared_ptr<CheckpointState> make_checkpoint(std::shared_ptr<CommunicatorState> comm,
                                                               const CheckpointConfig& config);

}  // namespace weir::detail
