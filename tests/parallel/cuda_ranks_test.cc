// Ranks whose tensors are on a GPU; skipped, and said so, where there is none.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "fovea/parallel/nccl.h"
#include "fovea/parallel/process_group.h"
#include "tests/parallel/every_collective.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/shared_run.h"
#include "tests/support/gpu_test.h"

namespace fovea::train {
namespace {

using parallel::World;
using parallel::testing::check_collectives;
using parallel::testing::run_ranks;
using std::chrono::seconds;

// libtorch keeps its first answer on whether CUDA is there: each of these tests is to be the first
// one of its process, or it is skipped.
using CudaRanksTest = support::GpuTest<>;

void check_every_dtype(parallel::Communicator& ranks) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
    check_collectives(ranks, dtype, at::kCUDA);
  }
}

// NCCL wants a GPU for each rank, so one GPU shows a group of one.
TEST_F(CudaRanksTest, OneRankOverNccl) {
  const auto nccl = parallel::nccl_backend(/*gpu=*/0);
  ASSERT_NE(nccl, nullptr) << "the CUDA module was built without nccl.h";
  EXPECT_EQ(nccl->device.size(), 32U) << "a UUID";
  const parallel::StoreServer server(
      parallel::listen_at("127.0.0.1", 0, /*is_for_others=*/false,
                          std::chrono::steady_clock::now() + seconds(60)),
      "");
  const parallel::KeyStore store(
      {.place = {.address = "127.0.0.1", .port = server.port()}, .timeout = seconds(60)});
  parallel::Watch watch(store.clone(seconds(60)), 0, 1, {.stale = seconds(60)});
  const parallel::GroupOptions options{.address = "127.0.0.1", .timeout = seconds(60)};
  const auto ranks = parallel::make_communicator(
      {.host = parallel::make_gloo_backend(store.under("host"), options),
       .device = nccl->make(store.under("device"), options)},
      options, watch);
  check_every_dtype(*ranks);
  check_collectives(*ranks, at::kFloat);  // of host memory
}

TEST_F(CudaRanksTest, TwoRanksOnOneGpuExchangeThroughTheHost) {
  run_ranks(2, [](World& world) { check_every_dtype(world.all()); });
}

TEST_F(CudaRanksTest, TwoRanksOnOneGpuTrainAsOneProcessDoes) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = testing::shared_config(world, own, "two");
    config.device.type = "cuda";
    config.parallel.dp_shard = 2;
    testing::fit_in(world, config);
    if (!world.is_first()) return;
    auto alone = config;
    alone.run.dir = own.path() + "/one";
    alone.parallel.dp_shard = 1;
    World one;
    testing::fit_in(one, alone);
    testing::expect_close_losses(config.run.dir, alone.run.dir);
  });
}

}  // namespace
}  // namespace fovea::train
