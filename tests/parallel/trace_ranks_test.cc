// Timelines of trainings in several processes.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/core/files.h"
#include "fovea/core/trace.h"
#include "fovea/parallel/ddp.h"
#include "fovea/train/trainer.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/shared_run.h"

namespace fovea::train {
namespace {

using nlohmann::json;
using parallel::World;
using parallel::testing::run_ranks;

struct Interval {
  std::string name;
  int64_t begin = 0, end = 0;
};

// Of one process, by name.
std::vector<Interval> spans_of(const json& trace, int64_t rank, const std::string& category,
                               const std::string& name) {
  std::vector<Interval> found;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("pid") != rank || event.at("cat") != category) continue;
    const std::string has = event.at("name");
    const int64_t begin = event.at("ts"), duration = event.at("dur");
    if (has.find(name) != std::string::npos) found.push_back({has, begin, begin + duration});
  }
  return found;
}

TEST(TraceRanksTest, GradientsOfABlockTravelWhileBackwardRuns) {
  run_ranks(2, [](World& world) {
    const testing::Folder own;
    auto config = testing::shared_config(world, own, "run");
    config.log.trace_steps = 2;
    config.trainer.max_steps = 4;
    config.parallel.dp_shard = 2;
    config.parallel.check_collectives = true;
    Trainer(config, ProgressLine::Mode::kSilent, world).fit();
    if (!world.is_first()) return;
    const auto trace = json::parse(read_file(config.run.dir + "/trace.json", 1 << 24));
    for (const int64_t rank : {0, 1}) {
      SCOPED_TRACE(rank);
      const auto path = config.run.dir + "/trace.rank" + std::to_string(rank) + ".json";
      EXPECT_TRUE(std::filesystem::exists(path));
      for (const char* name : {"data", "forward", "backward", "optimizer"}) {
        EXPECT_EQ(spans_of(trace, rank, "step", name).size(), 2u) << name;
      }
      const auto backward = spans_of(trace, rank, "step", "backward");
      const auto reduces =
          spans_of(trace, rank, "collective", "reduce_scatter of gradients of blocks.1");
      ASSERT_EQ(reduces.size(), 2u);
      for (size_t step = 0; step < 2; ++step) {
        EXPECT_GT(reduces[step].begin, backward[step].begin);
        EXPECT_LT(reduces[step].begin, backward[step].end);
      }
      EXPECT_FALSE(spans_of(trace, rank, "wait", "losses").empty());
    }
    for (const auto& event : trace.at("traceEvents")) {
      if (event.value("cat", "") != "collective") continue;
      EXPECT_EQ(event.at("args").at("axis"), "dp_shard");
      EXPECT_GE(event.at("args").at("bytes").get<int64_t>(), 0);
    }
  });
}

TEST(TraceRanksTest, ABucketIsOnItsWayBeforeBackwardEnds) {
  run_ranks(2, [](World& world) {
    const auto flat = at::zeros({3 * 64});
    std::vector<parallel::FlatParameter> params;
    auto x = at::ones({64});
    for (int64_t i = 0; i < 3; ++i) {
      auto leaf = at::ones({64}).set_requires_grad(true);
      leaf.mutable_grad() = flat.narrow(0, 64 * i, 64);
      params.push_back({"p" + std::to_string(i), leaf, 64 * i});
      x = at::mul(x, leaf);  // backward meets the last one first
    }
    parallel::GradientReducer reducer(params, flat, world.all(),
                                      {.bucket_bytes = 256, .first_bucket_bytes = 256});
    ASSERT_EQ(reducer.buckets().size(), 3u);
    trace::start();
    reducer.before_backward(/*is_last=*/true);
    {
      const trace::Scope backward("backward");
      x.sum().backward();
    }
    reducer.finish();
    world.all().barrier("all is written");
    std::vector<trace::Span> travels;
    int64_t end_of_backward = 0;
    for (const auto& span : trace::stop()) {
      if (span.name == "backward") end_of_backward = span.end;
      if (span.category == trace::kCollective && span.bytes == 256) travels.push_back(span);
    }
    ASSERT_EQ(travels.size(), 3u);
    for (const auto& travel : travels) {
      EXPECT_LE(travel.begin, end_of_backward) << travel.name;
      EXPECT_GE(travel.end, travel.begin);
    }
    EXPECT_NE(travels[0].name, travels[1].name);
  });
}

}  // namespace
}  // namespace fovea::train
