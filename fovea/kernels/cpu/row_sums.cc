#include "fovea/kernels/cpu/row_sums.h"

#include "fovea/kernels/cpu/bfloat16_bits.h"
#include "fovea/kernels/cpu/loop_clones.h"

namespace fovea::kernels::cpu {

// Four rows at a time, so that the sum is loaded and stored a quarter as often.
void add_rows(const float* first_row, int64_t rows, int64_t N, float* sum) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
    const float* x = first_row;
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4, x += 4 * N) {
      for (int64_t n = 0; n < N; ++n) {
        sum[n] += (x[n] + x[N + n]) + (x[2 * N + n] + x[3 * N + n]);
      }
    }
    for (; m < rows; ++m, x += N) {
      for (int64_t n = 0; n < N; ++n) sum[n] += x[n];
    }
  });
}

void add_rows_bfloat16(const uint16_t* first_row, int64_t rows, int64_t N, float* sum) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
    const uint16_t* x = first_row;
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4, x += 4 * N) {
      for (int64_t n = 0; n < N; ++n) {
        sum[n] += (float_of_bits(x[n]) + float_of_bits(x[N + n])) +
                  (float_of_bits(x[2 * N + n]) + float_of_bits(x[3 * N + n]));
      }
    }
    for (; m < rows; ++m, x += N) {
      for (int64_t n = 0; n < N; ++n) sum[n] += float_of_bits(x[n]);
    }
  });
}

}  // namespace fovea::kernels::cpu
