#include "fovea/train/ranks.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/models/partitionings.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/parallel/recompute.h"
#include "fovea/parallel/slot_reducer.h"
#include "fovea/train/evaluate/evaluation_parts.h"

namespace fovea::train {
namespace {

using nlohmann::json;

constexpr size_t kMostDifferences = 8;

std::string differences(const std::string& first, const std::string& other) {
  std::vector<std::string> lines;
  for (const auto& change : config_diff(parse_config<TrainConfig>(first, "rank 0", {}),
                                        parse_config<TrainConfig>(other, "another rank", {}))) {
    lines.push_back(fmt::format("  {}: {} of rank 0, {} here", change.key,
                                change.a.value_or("nothing"), change.b.value_or("nothing")));
    if (lines.size() == kMostDifferences) break;
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// FNV-1a over words; bytes that are no whole word come last.
int64_t hash_of(const at::Tensor& tensor) {
  const auto whole = tensor.detach().to(at::kCPU).contiguous();
  const auto* data = static_cast<const char*>(whole.const_data_ptr());
  uint64_t hash = 14695981039346656037ull;
  for (size_t at = 0; at < whole.nbytes(); at += sizeof hash) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, std::min(sizeof word, whole.nbytes() - at));
    hash = (hash ^ word) * 1099511628211ull;
  }
  return static_cast<int64_t>(hash);
}

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

void check_equal(const NamedTensors& tensors, parallel::Communicator& ranks) {
  if (tensors.empty() || ranks.size() == 1) return;
  const auto count = static_cast<int64_t>(tensors.size());
  const auto own = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    own.data_ptr<int64_t>()[i] = hash_of(tensors[static_cast<size_t>(i)].second);
  }
  const auto all = at::empty({ranks.size(), count}, at::kLong);
  ranks.all_gather(all, own, "hashes of the weights");
  const auto hash = all.accessor<int64_t, 2>();
  for (int64_t rank = 1; rank < ranks.size(); ++rank) {
    for (int64_t i = 0; i < count; ++i) {
      FOVEA_CHECK(hash[rank][i] == hash[0][i],
                  "{} of rank {} differs from that of rank 0; expected equal weights: do all ranks "
                  "run the same program and read the same files?",
                  tensors[static_cast<size_t>(i)].first, rank);
    }
  }
}

json to_json(const std::vector<data::BadSampleEvent>& events) {
  auto list = json::array();
  for (const auto& event : events) {
    list.push_back(
        {event.row, event.index, json_of_bytes(event.name), json_of_bytes(event.reason)});
  }
  return list;
}

std::vector<data::BadSampleEvent> events_from(const json& list) {
  std::vector<data::BadSampleEvent> events;
  for (const auto& one : list) {
    events.push_back({one.at(0), one.at(1), bytes_of(one.at(2)), bytes_of(one.at(3))});
  }
  return events;
}

}  // namespace

void check_same_config(const TrainConfig& config, parallel::World& world) {
  const auto all = parallel::all_gather_text(world.all(), dump_config(config), "configs");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail<ConfigError>(
        "the ranks were started with different configs. Rank {}:\n{}\nStart all of them with the "
        "same recipe and the same overrides",
        rank, differences(all[0], all[rank]));
  }
}

void check_same_batches(const data::SampleOrder& order, parallel::World& world) {
  const auto all = parallel::all_gather_text(
      world.all(), data::batch_schedule_text(order.batch_schedule()), "sizes of batches");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    fail<ConfigError>(
        "data.batch_schedule: rank {} read other sizes of batches than rank 0:\n{}there, and\n{}of "
        "rank 0. Give all of them the same file",
        rank, all[rank], all[0]);
  }
}

parallel::DeviceMesh make_mesh(const TrainConfig& config, parallel::World& world) {
  check_same_config(config, world);
  return {world,
          parallel::mesh_shape(config.parallel, world.size(), config.data.global_batch_size)};
}

data::BatchShare data_share(const parallel::DeviceMesh& mesh,
                            const parallel::ParallelConfig& config) {
  const auto& ranks = mesh.data_parallel();
  if (config.slots > 0 && config.slots < ranks.size()) {
    fail<ConfigError>(
        "parallel.slots: found {} for {} processes that share out each batch; expected at least a "
        "slot for each: set more, or start fewer processes",
        config.slots, ranks.size());
  }
  return data::BatchShare::of_rank(ranks.rank(), ranks.size(), config.slots);
}

std::unique_ptr<parallel::ModelParallel> share_out_model(const TrainConfig& config,
                                                         models::Model& model,
                                                         const parallel::DeviceMesh& mesh) {
  auto shared = std::make_unique<parallel::ModelParallel>(
      model, models::partitioning_of(config.model), mesh, config.parallel.sequence_parallel,
      parallel::cp_method_of(config.parallel.cp_method));
  parallel::recompute_in_backward(model, config.parallel.recompute,
                                  config.parallel.recompute_every);
  return shared;
}

void check_same_weights(const models::Model& model, const parallel::DeviceMesh& mesh,
                        const parallel::ModelParallel& model_parallel,
                        const parallel::ShardedParams* shards) {
  using parallel::MeshAxis;
  std::map<std::string, at::Tensor> part_of;
  if (shards != nullptr) {
    for (const auto& param : shards->params()) part_of[param.name] = param.part;
  }
  NamedTensors whole, cuts, parts, parts_of_cuts;
  for (const auto& item : model.named_parameters()) {
    const bool is_cut = model_parallel.is_split(item.key());
    if (const auto part = part_of.find(item.key()); part != part_of.end()) {
      (is_cut ? parts_of_cuts : parts).push_back(*part);
    } else {
      (is_cut ? cuts : whole).emplace_back(item.key(), item.value());
    }
  }
  check_equal(whole, mesh.world().all());
  check_equal(cuts, mesh.data_parallel());
  check_equal(parts, mesh.axis(MeshAxis::kTp));
  if (shards != nullptr) check_equal(shards->shares(), mesh.axis(MeshAxis::kDpReplicate));
  for (const auto* same : {&cuts, &parts, &parts_of_cuts}) {
    check_equal(*same, mesh.axis(MeshAxis::kCp));
  }
}

std::unique_ptr<parallel::GradientSync> make_reducer(const parallel::ParallelConfig& config,
                                                     optim::Optimizer& optimizer,
                                                     parallel::Communicator& ranks,
                                                     bool measures_halves) {
  if (config.sums_by_slot()) {
    auto reducer = std::make_unique<parallel::SlotReducer>(optimizer.flat_grad(), ranks);
    if (measures_halves) reducer->measure_halves();
    return reducer;
  }
  std::vector<parallel::FlatParameter> params;
  for (const auto& spec : optimizer.params()) {
    params.push_back({spec.name, spec.param, spec.param.storage_offset()});
  }
  const auto wire = config.reduce_dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
  return std::make_unique<parallel::GradientReducer>(std::move(params), optimizer.flat_grad(),
                                                     ranks,
                                                     parallel::ReducerOptions{.wire_dtype = wire});
}

void share_bad_samples(data::Loader& loader, parallel::Communicator& ranks) {
  const auto own = to_bytes(to_json(loader.take_bad_sample_events()));
  const auto all = parallel::all_gather_text(ranks, own, "bad samples");
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int64_t>(rank) == ranks.rank()) continue;
    loader.add_bad_sample_events(events_from(json_from_bytes(all[rank])));
  }
}

}  // namespace fovea::train
