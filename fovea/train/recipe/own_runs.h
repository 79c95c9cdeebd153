// What Fovea's own runs leave, where weights or the state of an optimizer are asked for: run
// folders and their checkpoints stand beside files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fovea::train {

// A checkpoint of a run.
struct CheckpointPlace {
  std::string run_dir;  // of the phase, where the run has phases
  int64_t step = 0;

  std::string checkpoints() const { return run_dir + "/checkpoints"; }
};

// Whether `path` is a run folder, its folder `checkpoints`, one of the folders in it, or
// `checkpoints/best` or `checkpoints/latest`.
bool is_own_run(const std::string& path);

// The checkpoint that such a path names; of a whole run its newest one, of a run of phases that of
// the last phase that has begun. Throws CheckpointError where there is none yet.
CheckpointPlace find_checkpoint(const std::string& path);

// The weights file that `path` stands for: of a run its final weights, or those of its newest
// checkpoint while it has none; of a checkpoint its weights (the averaged ones, where there are
// any); of a name on the hub (hub_source.h) the file of that, which is fetched where it is not here
// yet. All other paths as they are. Throws CheckpointError; see hub::find_weights.
std::string weights_path(const std::string& path);

}  // namespace fovea::train
