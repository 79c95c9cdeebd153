// The checkpoints of a run: a folder with one folder for each, newest and best by name.
//
//   step_00001000/  manifest.json  model-00000.safetensors  optimizer-00000.safetensors
//                   [ema-00000.safetensors]
//                   (with a label: step_00001000_loss_0.251/)
//   latest  best    text files: the name of a checkpoint's folder
//
// A checkpoint is written into a folder `.tmp-*`, each file with its checksum and brought to the
// disk, then renamed; then `latest` and `best` are replaced; then old ones are deleted. Killed at
// any moment, a run finds a whole checkpoint. Text files instead of links, because not every file
// system (nor every copy) keeps links.
//
// One run saves at a time (the run folder's lock sees to that); any number of processes may read.
// Where several processes share out the state, each writes files of its own
// (model-00001.safetensors
// ...) and a manifest of them; the first joins the manifests when all are there.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/publishing.h"
#include "fovea/checkpoint/state.h"

namespace fovea::checkpoint {

// A checkpoint that stands.
struct Published {
  int64_t step = 0;
  std::string folder;  // its name, in the store's
  std::string sum;     // SHA-256 of its manifest
  nlohmann::json scalars;
};

struct StoreOptions {
  int64_t keep = 3;                                   // newest checkpoints kept, besides the best
  bool async = true;                                  // write on a thread of its own
  std::function<void(const std::string&)> warn = {};  // by default the log

  // Of several processes that save together; all call save() alike.
  int64_t writer = 0, num_writers = 1;
  std::function<void()> barrier = {};  // returns once all of them are there
  double patience = 600;               // seconds the first waits for the files of the others
  // Whether they will not come any more, as one of them is lost: the save is then dropped. Asked
  // from the thread that writes; empty: they come.
  std::function<bool()> others_are_lost = {};

  // Asked by the first writer before what it has written becomes a checkpoint, from the thread that
  // writes: where it may not, it is dropped, with a warning. While that is not known it waits some
  // seconds, but not once the next save has come. Empty: it may.
  std::function<Publishing()> may_publish = {};
  // Told of one that became a checkpoint, before `latest` names it, from the same thread.
  std::function<void(const Published&)> published = {};
};

// What several processes that load together say to each other; each function is collective. One
// process has nobody to ask.
struct Agreement {
  // -> the newest step of which the folder, as the first process sees it, has a checkpoint that was
  // not refused; -1: none.
  std::function<int64_t(int64_t own)> newest = [](int64_t own) { return own; };
  // -> what is wrong with a checkpoint, as the first process says that finds a fault; empty:
  // nothing.
  std::function<std::string(const std::string& own)> fault = [](const std::string& own) {
    return own;
  };
  bool is_first = true;  // who refuses a damaged one, with a warning
};

class Store {
 public:
  // The folder need not exist before the first save.
  explicit Store(std::string folder, StoreOptions options = {});
  // Waits for a save under way; a failure nobody asked for goes to `warn`.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Saves what `state` holds now: it is copied, so that training may go on at once. Waits for the
  // save before it. Throws CheckpointError where that one failed (or, without async, this one); a
  // save that fails leaves nothing behind and the older checkpoints whole. A label, such as
  // "loss_0.251", ends the folder's name; it is for people, nothing reads it.
  void save(int64_t step, const State& state, bool is_best, const std::string& label = "");

  // Throws CheckpointError where a save failed and nobody was told yet; does not wait.
  void check();
  // Waits for the save under way, then as check().
  void wait();

  // The newest checkpoint of which every process finds whole what it needs; each newer one is named
  // in a warning. Nothing where there is no checkpoint. wanted: see load. Throws CheckpointError
  // where there are some, and all are damaged.
  std::optional<State> load_latest(const WantedParts& wanted = {}, const Agreement& agreement = {});

  // The newest checkpoint that was not refused.
  std::optional<int64_t> newest() const;
  // The checkpoint of a step; wanted: what this process needs of it, in State::parts then. Only
  // that is read, and checked. Throws CheckpointError where it is not here, or damaged.
  State load(int64_t step, const WantedParts& wanted = {}) const;
  // The step of "best", of "latest" or of the checkpoint in a folder of that name; nothing where it
  // is not there.
  std::optional<int64_t> step_named(const std::string& which) const;

  // The safetensors file with the weights of one that is named so (the averaged ones, where there
  // are any), checked; where several processes wrote them, a file beside theirs into which they are
  // joined now. Throws CheckpointError.
  std::string weights_file(const std::string& which) const;

  // Steps of the checkpoints there are, rising, whole or not.
  std::vector<int64_t> steps() const;

 private:
  struct Snapshot;

  // It is damaged, as `fault` says: a warning, and it counts no more.
  void refuse(int64_t step, const std::string& fault);

  bool may_publish() const;
  void write(const Snapshot& snapshot) const;
  Manifest write_files(const Snapshot& snapshot, const std::filesystem::path& temporary) const;
  void write_part(const Snapshot& snapshot) const;
  void join_parts(Manifest& manifest, const std::filesystem::path& temporary) const;
  std::filesystem::path temporary_folder(const std::string& name) const;
  void prepare(const std::filesystem::path& temporary) const;
  void prune() const;
  void remove(const std::string& name) const;
  void remove_leftovers() const;
  std::map<int64_t, std::string> folders() const;  // names of the checkpoints' folders, by step
  std::string pointer(const std::string& which) const;

  std::filesystem::path folder_;
  StoreOptions options_;
  std::map<int64_t, std::string> refused_;   // damaged, and how: not counted among those kept
  std::atomic<bool> is_next_there_ = false;  // another save waits for the one under way
  std::future<void> writing_;  // of the save under way, or of one whose end nobody has seen yet
};

}  // namespace fovea::checkpoint
