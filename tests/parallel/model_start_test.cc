// Models that are built without values and get those of this rank's parts.
#include "fovea/train/state/model_start.h"

#include <gtest/gtest.h>

#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "tests/parallel/run_ranks.h"
#include "tests/parallel/sharded_run.h"
#include "tests/support/counting_allocator.h"

namespace fovea::train {
namespace {

using parallel::testing::run_ranks;
using support::CountingAllocator;

// A model's start as Trainer goes about it.
struct SharedStart {
  SharedStart(const TrainConfig& config, const parallel::DeviceMesh& mesh)
      : start(config, {}),
        layers(share_out_model(config, *start.model(), mesh)),
        shards(make_shards(config, *start.model(), mesh, start.values(*layers))) {}

  ModelStart start;
  std::unique_ptr<parallel::ModelParallel> layers;
  std::unique_ptr<parallel::ShardedParams> shards;
};

// Every parameter of this rank is, bit for bit, its part of the whole one.
void expect_parts_of(const models::Model& whole, const SharedStart& shared) {
  std::map<std::string, at::Tensor> own, parts;
  std::map<std::string, int64_t> first;
  for (const auto& item : shared.start.model()->named_parameters()) own[item.key()] = item.value();
  for (const auto& param : shared.shards->params()) {
    parts[param.name] = param.part;
    first[param.name] = param.first;
  }
  for (const auto& item : whole.named_parameters()) {
    const auto& name = item.key();
    const auto cut = shared.layers->cut_of(name);
    const auto expected =
        cut ? kernels::take_cut(*cut, item.value().detach()) : item.value().detach();
    const auto part = parts.find(name);
    EXPECT_EQ(part != parts.end(), item.value().requires_grad()) << name;
    EXPECT_EQ(own.at(name).requires_grad(), item.value().requires_grad()) << name;
    EXPECT_TRUE(own.at(name).is_cpu()) << name;
    if (part == parts.end()) {
      EXPECT_TRUE(own.at(name).equal(expected)) << name;
    } else {
      const auto range = expected.flatten().narrow(0, first.at(name), part->second.numel());
      EXPECT_TRUE(part->second.detach().equal(range)) << name;
    }
  }
}

TEST(ModelStartTest, ValuesAreThoseOfAWholeModel) {
  run_ranks(4, [](parallel::World& world) {
    const testing::Folder folder;
    for (const auto& item : testing::model_cases()) {
      SCOPED_TRACE(item.name);
      auto config = item.config(folder);
      config.parallel = {.dp_shard = 2, .tp = 2};
      if (item.name == std::string("vit_2d")) config.trainer.freeze = {"*.attn.qkv.*", "norm.*"};
      const parallel::DeviceMesh mesh(world, parallel::MeshShape{{1, 2, 1, 2}});
      const auto whole = make_model(config, {});
      expect_parts_of(*whole, SharedStart(config, mesh));
      // From a file: other values, of which one has to be made to fit.
      const auto* vit = config.model.get_if<models::VitConfig>();
      if (vit == nullptr || vit->is_adaptive()) continue;
      config.init.weights = folder.file(std::string(item.name) + ".safetensors");
      auto other = config;
      auto large = *vit;
      for (auto& side : large.img_size) side *= 2;
      other.model = {large};
      other.init.weights.clear();
      other.run.seed = 1234;
      models::save_weights(*make_model(other, {}), config.init.weights);
      const auto loaded = make_model(config, {});
      const std::string some = "blocks.0.mlp.fc1.weight";
      EXPECT_FALSE(loaded->named_parameters()[some].equal(whole->named_parameters()[some]));
      expect_parts_of(*loaded, SharedStart(config, mesh));
    }
  });
}

// A start takes this rank's share, a block that is being shared out, and little else.
TEST(ModelStartTest, MemoryOfAStartFallsWithTheNumberOfRanks) {
  for (const int64_t ranks : {2, 4}) {
    run_ranks(ranks, [ranks](parallel::World& world) {
      const testing::Folder folder;
      auto config = testing::tiny_config(folder);
      auto vit = *config.model.get_if<models::VitConfig>();
      vit.embed_dim = 128;
      vit.depth = 12;
      vit.num_heads = 4;
      config.model = {vit};
      double whole = 0;
      for (const auto& parameter : models::build_model(config.model, at::kMeta)->parameters()) {
        whole += static_cast<double>(parameter.nbytes());
      }
      support::count_cpu_memory();
      const auto peak_on = [&](int64_t shards, int64_t tp) {
        config.parallel = {.dp_shard = shards, .tp = tp};
        const parallel::DeviceMesh mesh(world, parallel::MeshShape{{1, shards, 1, tp}});
        const auto before = CountingAllocator::in_use.load();
        CountingAllocator::peak = before;
        const SharedStart shared(config, mesh);
        return static_cast<double>(CountingAllocator::peak - before) / whole;
      };
      const double share = 1.0 / static_cast<double>(ranks), block = 1.0 / 12;
      // A block's buffer, and its largest matrix (a third of it) while it is made, cut and sent.
      EXPECT_LT(peak_on(ranks, 1), share + 2 * block);
      EXPECT_LT(peak_on(1, ranks), share + 1.5 * block);
      if (ranks == 4) {
        EXPECT_LT(peak_on(2, 2), share + 2 * block);
      }
    });
  }
}

}  // namespace
}  // namespace fovea::train
