// The tile registers of AMX.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/int8_blocks.h"
#include "fovea/kernels/cpu/panels.h"

namespace fovea::kernels::cpu {

// All of it needs has_amx() (processor.h). Between configure_tiles and release_tiles of the same
// thread the registers hold what multiply_panels_in_tiles puts into them.
void configure_tiles();
void release_tiles();

// multiply_panels (panels.h) on tile registers, of which those that nothing is wanted of rest.
void multiply_panels_in_tiles(const PanelLines& first, const SecondPanel& second,
                              const PanelExtent& extent, bool adds, float* block);

// multiply_int8_block (int8_blocks.h) of processors that have AMX with 8-bit integers: 32 rows of
// codes and a strip of 32 columns, a multiple of a tile's depth.
inline constexpr int64_t kInt8TileRows = 16,
                         kInt8TileDepth = kInt8GroupsOfStep * Int8Layout::kGroupBytes;
void multiply_int8_in_tiles(const Int8Factors& factors, bool adds, int32_t* sums);

}  // namespace fovea::kernels::cpu
