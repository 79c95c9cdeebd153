#include "fovea/kernels/cpu/own_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace fovea::kernels::cpu {
namespace {

TEST(OwnThreadsTest, AScopePutsBackWhatWasThere) {
  const int before = at::get_num_threads();
  const auto mkl_threads = [] { return set_mkl_threads ? set_mkl_threads(0) : 0; };
  mkl_threads();  // none of this thread's own
  {
    const OwnThreadsScope three(3);
    EXPECT_EQ(at::get_num_threads(), 3);
    {
      const OwnThreadsScope one(1);
      EXPECT_EQ(at::get_num_threads(), 1);
    }
    EXPECT_EQ(at::get_num_threads(), 3);
  }
  EXPECT_EQ(at::get_num_threads(), before);
  EXPECT_EQ(mkl_threads(), 0) << "follows at::set_num_threads again";
}

}  // namespace
}  // namespace fovea::kernels::cpu
