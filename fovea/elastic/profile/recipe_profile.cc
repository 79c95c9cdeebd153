#include "fovea/elastic/profile/recipe_profile.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/memory.h"
#include "fovea/core/printable.h"
#include "fovea/kernels/device_memory.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/plan/rehearsal.h"
#include "fovea/train/bench/bench_workload.h"
#include "fovea/train/recipe/model_identity.h"

namespace fovea::elastic {
namespace {

constexpr double kMegabyte = 1 << 20;
constexpr size_t kMaxShown = 200;

// What of a recipe its profiles have to match.
struct ProfiledShape {
  models::ModelConfig model;
  train::DeviceConfig device;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
    v.field("device", self.device, "where and in what precision it runs");
  }
};

}  // namespace

train::TrainConfig one_pass_config(const train::TrainConfig& recipe, int64_t batch) {
  auto config = train::one_process_config(recipe);
  config.trainer.micro_batch_size.reset();
  config.trainer.concurrent_passes = 1;
  config.data.batch_schedule.clear();
  config.data.global_batch_size = batch;
  return config;
}

int64_t device_memory_bytes(c10::Device device) {
  if (device.is_cpu()) return usable_memory_bytes();
  at::empty({1}, at::TensorOptions().device(device));  // the allocator answers once it has begun
  return kernels::memory_for_us(device);
}

std::vector<double> bucket_megabytes(const train::TrainConfig& config) {
  auto two = one_pass_config(config, 2);
  two.parallel.reduce_dtype = config.parallel.reduce_dtype;
  const auto rehearsal = plan::rehearse(two, parallel::MeshShape{.sizes = {2, 1, 1, 1}}, 0);
  std::vector<double> megabytes;
  rehearsal.for_each([&](const plan::Event& event) {
    // See GradientReducer: sums in bfloat16 go there as parts, and come back gathered.
    const bool is_start = event.kind == plan::Event::Kind::kStart &&
                          event.collective != parallel::Collective::kAllGather;
    if (!is_start || !event.what.starts_with("gradients [")) return;
    megabytes.push_back(static_cast<double>(event.bytes) / kMegabyte);
  });
  FOVEA_CHECK(!megabytes.empty(), "two ranks of {} exchange no gradients", config.model.name());
  return megabytes;
}

void check_profiles_of_recipe(const std::string& path, const ProfileSet& profiles) {
  auto tree = parse_config_yaml(read_file(path, kMaxConfigBytes), path);
  const auto* model = tree.find("model");
  if (profiles.devices.empty() || model == nullptr) return;
  ConfigTree shape{.root = {}};
  shape.root.kind = ConfigNode::Kind::kMap;
  shape.root.add("model", *model);
  const auto* device = tree.find("device");
  if (device != nullptr) shape.root.add("device", *device);
  const auto recipe = changed_config(ProfiledShape(), shape, path);
  const auto identity = train::model_identity(recipe.model);
  if (identity != profiles.model) {
    fail<DataError>("{}: model: '{}'; the profiles in {} are of '{}': profile this recipe",
                    model->origin.text(), identity, profiles.source,
                    printable_start(profiles.model, kMaxShown));
  }
  const auto& dtype = profiles.devices.front().dtype;
  if (recipe.device.dtype == "auto" || recipe.device.dtype == dtype) return;
  fail<DataError>("{}: device.dtype: {}; the profiles in {} are of {}: profile this recipe",
                  device ? device->origin.text() : path, recipe.device.dtype, profiles.source,
                  printable_start(dtype));
}

}  // namespace fovea::elastic
