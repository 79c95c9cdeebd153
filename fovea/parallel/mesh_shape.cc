#include "fovea/parallel/mesh_shape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "fovea/core/error.h"

namespace fovea::parallel {

void ParallelConfig::validate(ConfigIssues& issues) const {
  if (sequence_parallel && tp == 1) {
    issues.add(
        "sequence_parallel", {"tp"},
        "found true with tp: 1, but tokens are shared out among the processes of tp; set tp, "
        "or use cp, which shares them out by itself");
  }
  if (cpu_offload && dp_shard == 1) {
    issues.add(
        "cpu_offload", {"dp_shard"},
        "found true with dp_shard: 1, but it is shares of dp_shard that lie in the memory of "
        "the host; set dp_shard, or leave it out");
  }
  if (shard_outer != "none" && dp_replicate == 1) {
    issues.add("shard_outer", {"dp_replicate"},
               fmt::format("found {} with dp_replicate: 1, but it is among the copies of "
                           "dp_replicate that it shares out; set dp_replicate, or leave it out",
                           shard_outer));
  }
  if (slots > 0 && reduce_dtype != "float32") {
    issues.add("reduce_dtype", {"slots"},
               fmt::format("found {} with slots: {}, whose sums travel as they are, so that no bit "
                           "of them depends on the processes; set float32, or slots: 0",
                           reduce_dtype, slots));
  }
}

const char* name_of(MeshAxis axis) {
  constexpr std::array<const char*, kNumMeshAxes> kNames = {"dp_replicate", "dp_shard", "cp", "tp"};
  return kNames[static_cast<size_t>(axis)];
}

int64_t MeshShape::num_ranks() const {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

std::array<int64_t, kNumMeshAxes> MeshShape::coordinates(int64_t rank) const {
  std::array<int64_t, kNumMeshAxes> result{};
  for (size_t axis = kNumMeshAxes; axis-- > 0;) {
    result[axis] = rank % sizes[axis];
    rank /= sizes[axis];
  }
  return result;
}

std::vector<int64_t> MeshShape::group_of(int64_t rank, std::span<const MeshAxis> axes) const {
  const auto own = coordinates(rank);
  std::vector<int64_t> group;
  for (int64_t other = 0; other < num_ranks(); ++other) {
    const auto its = coordinates(other);
    bool is_member = true;
    for (size_t axis = 0; axis < kNumMeshAxes; ++axis) {
      const bool is_free =
          std::find(axes.begin(), axes.end(), static_cast<MeshAxis>(axis)) != axes.end();
      is_member = is_member && (is_free || its[axis] == own[axis]);
    }
    if (is_member) group.push_back(other);
  }
  return group;
}

MeshShape mesh_shape(const ParallelConfig& config, int64_t num_processes,
                     int64_t global_batch_size) {
  std::vector<std::string> faults;
  const int64_t inner = config.dp_shard * config.cp * config.tp;
  MeshShape shape;
  shape.sizes = {config.dp_replicate.value_or(std::max<int64_t>(1, num_processes / inner)),
                 config.dp_shard, config.cp, config.tp};
  if (shape.num_ranks() != num_processes) {
    faults.push_back(fmt::format(
        "parallel: dp_replicate {} x dp_shard {} x cp {} x tp {} is {} processes, but there {} {}; "
        "leave dp_replicate: auto, or start {}",
        shape.sizes[0], shape.sizes[1], shape.sizes[2], shape.sizes[3], shape.num_ranks(),
        num_processes == 1 ? "is" : "are", num_processes, shape.num_ranks()));
  }
  const int64_t parts = shape.size(MeshAxis::kDpReplicate) * shape.size(MeshAxis::kDpShard);
  if (parts > global_batch_size) {
    faults.push_back(
        fmt::format("data.global_batch_size: found {} for {} parts of the batch; expected at least "
                    "a sample for each: raise it, or start fewer processes",
                    global_batch_size, parts));
  }
  if (!faults.empty()) throw ConfigError(fmt::format("{}", fmt::join(faults, "\n")));
  return shape;
}

}  // namespace fovea::parallel
