// The last step of Canny's detector, on bits: 64 pixels an operation.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::data::patching {

// Grows `strong` to every candidate that is joined to a strong pixel by candidates, over edges and
// corners. Both: [H, ceil(W / 64)] words, bits beyond W zero. is_dirty: scratch.
void grow_edges(int64_t height, int64_t words, const uint64_t* candidates, uint64_t* strong,
                std::vector<uint8_t>& is_dirty);

}  // namespace fovea::data::patching
