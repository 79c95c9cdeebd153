// Where a rank stands in the mesh dp_replicate x dp_shard x cp x tp; free of processes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/parallel/config.h"

namespace fovea::parallel {

// From the outermost to the innermost: ranks of one tp group are neighbours.
enum class MeshAxis { kDpReplicate, kDpShard, kCp, kTp };
inline constexpr size_t kNumMeshAxes = 4;

// "dp_replicate", "dp_shard", "cp", "tp".
const char* name_of(MeshAxis axis);

struct MeshShape {
  std::array<int64_t, kNumMeshAxes> sizes = {1, 1, 1, 1};  // by axis

  int64_t size(MeshAxis axis) const { return sizes[static_cast<size_t>(axis)]; }
  int64_t num_ranks() const;
  // Coordinates of a rank, by axis.
  std::array<int64_t, kNumMeshAxes> coordinates(int64_t rank) const;
  // The ranks that differ from `rank` along `axes` alone, itself included, rising.
  std::vector<int64_t> group_of(int64_t rank, std::span<const MeshAxis> axes) const;
};

// The mesh of so many processes. Throws ConfigError with every fault at once: sizes that do not
// multiply to the number of processes, more of them than samples in a batch.
MeshShape mesh_shape(const ParallelConfig& config, int64_t num_processes,
                     int64_t global_batch_size);

}  // namespace fovea::parallel
