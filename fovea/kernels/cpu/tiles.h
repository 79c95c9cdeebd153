// The tile registers of AMX.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// Whether this processor has AMX with bfloat16 and the system lets this process use it.
bool has_amx();

// What follows needs has_amx(). Between configure_tiles and release_tiles of the same thread the
// registers hold what multiply_panels_in_tiles puts into them.
void configure_tiles();
void release_tiles();

// multiply_panels (panels.h) on tile registers, all of `steps` steps.
void multiply_panels_in_tiles(const uint16_t* first, const uint16_t* second, int64_t steps,
                              bool adds, float* block);

}  // namespace fovea::kernels::cpu
