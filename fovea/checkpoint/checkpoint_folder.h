// One checkpoint: a folder among those of a store (store.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "fovea/checkpoint/state.h"

namespace fovea::checkpoint {

// "step_00001000", and with a label "step_00001000_loss_0.251".
std::string folder_name(int64_t step, const std::string& label);
// Nothing: that is no checkpoint's name.
std::optional<int64_t> step_of(const std::string& folder_name);

// What a file beside it says in one line, such as the name of a folder.
std::string first_line_of(const std::filesystem::path& path);

// Its state, checked; wanted: what this process needs of it, in State::parts then. Throws DataError
// where it is damaged.
State read_state(const std::filesystem::path& folder, const WantedParts& wanted);

// The safetensors file with its weights (the averaged ones, where there are any), checked; where
// several processes wrote them, a file beside theirs into which they are joined now. Throws
// CheckpointError.
std::string weights_in(const std::filesystem::path& folder);

}  // namespace fovea::checkpoint
