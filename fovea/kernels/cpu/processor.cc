#include "fovea/kernels/cpu/processor.h"

#include "fovea/core/simd.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fovea::kernels::cpu {

#ifdef __x86_64__

#ifdef __clang__  // version 14 does not know levels by name
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
bool has_avx2() { return __builtin_cpu_supports("x86-64-v3") != 0; }
#endif

bool has_avx512() {
  return kUsesAvx512 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
}

bool is_intel() { return __builtin_cpu_is("intel") != 0; }

#ifdef FOVEA_AVX512_EMULATION

bool has_avx512_bfloat16() { return true; }
bool has_avx512_vnni() { return true; }
bool has_avx_vnni() { return true; }
bool has_amx() { return true; }
bool has_amx_int8() { return true; }

#else

bool has_avx512_bfloat16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
bool has_avx512_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

// Compilers know this processor feature by different names.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAvxVnni = 1u << 4;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kAvxVnni) != 0;
}

namespace {

// Linux saves the tile registers of a process only after it has asked for them.
bool ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // asm/prctl.h of Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool has_amx() {
  static const bool has = has_avx512_bfloat16() && __builtin_cpu_supports("amx-tile") &&
                          __builtin_cpu_supports("amx-bf16") && ask_for_tiles();
  return has;
}
bool has_amx_int8() { return has_amx() && __builtin_cpu_supports("amx-int8"); }

#endif

#else

bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_bfloat16() { return false; }
bool has_avx512_vnni() { return false; }
bool has_avx_vnni() { return false; }
bool has_amx() { return false; }
bool has_amx_int8() { return false; }
bool is_intel() { return false; }

#endif

}  // namespace fovea::kernels::cpu
