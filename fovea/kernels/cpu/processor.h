// What the processor has that this runs on.
#pragma once

namespace fovea::kernels::cpu {

bool has_avx2();    // and the rest of x86-64-v3
bool has_avx512();  // x86-64-v4
bool has_avx512_bfloat16();
bool has_avx512_vnni();
bool has_avx_vnni();  // in vectors of AVX2
// AMX, whose registers the system lets this process use, with bfloat16, and with 8-bit integers.
bool has_amx();
bool has_amx_int8();
bool is_intel();

}  // namespace fovea::kernels::cpu
