// The tile registers of AMX.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/panels.h"

namespace fovea::kernels::cpu {

// All of it needs has_amx() (processor.h). Between configure_tiles and release_tiles of the same
// thread the registers hold what multiply_panels_in_tiles puts into them.
void configure_tiles();
void release_tiles();

// multiply_panels (panels.h) on tile registers, of which those that nothing is wanted of rest.
void multiply_panels_in_tiles(const PanelLines& first, const uint16_t* second,
                              const PanelExtent& extent, bool adds, float* block);

// A block of a product of 8-bit integers (multiply_int8_block of int8_blocks.h), of processors that
// have AMX with these: 32 rows of codes and a strip of 32 columns, `groups` of four codes deep, a
// multiple of a tile's depth.
inline constexpr int64_t kInt8TileRows = 16, kInt8TileDepth = 64;
void multiply_int8_in_tiles(const uint8_t* rows, int64_t stride, const uint8_t* strip,
                            int64_t groups, bool adds, int32_t* sums);

}  // namespace fovea::kernels::cpu
