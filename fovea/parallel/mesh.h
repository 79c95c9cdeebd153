// The ranks of a world as a mesh, and the groups along its axes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "fovea/parallel/communicator.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/parallel/world.h"

namespace fovea::parallel {

class DeviceMesh {
 public:
  // Collective over the world; `world` outlives the mesh. Throws Error unless the shape has as many
  // ranks as the world.
  DeviceMesh(World& world, const MeshShape& shape);

  World& world() const { return world_; }
  const MeshShape& shape() const { return shape_; }
  int64_t coordinate(MeshAxis axis) const { return coordinates_[static_cast<size_t>(axis)]; }

  // The ranks that differ from this one along `axis` alone.
  Communicator& axis(MeshAxis axis) const { return *axes_[static_cast<size_t>(axis)]; }
  // dp_replicate and dp_shard together: the ranks that see other samples. Its rank() is the part of
  // each batch that this one reads.
  Communicator& data_parallel() const { return *data_parallel_; }

 private:
  World& world_;
  MeshShape shape_;
  std::array<int64_t, kNumMeshAxes> coordinates_;
  std::array<std::shared_ptr<Communicator>, kNumMeshAxes> axes_;
  std::shared_ptr<Communicator> data_parallel_;
};

}  // namespace fovea::parallel
