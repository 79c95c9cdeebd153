#include "fovea/parallel/mesh.h"

#include "fovea/core/error.h"

namespace fovea::parallel {

DeviceMesh::DeviceMesh(World& world, const MeshShape& shape)
    : world_(world), shape_(shape), coordinates_(shape.coordinates(world.rank())) {
  FOVEA_CHECK(shape.num_ranks() == world.size(), "a mesh of {} ranks in a world of {}",
              shape.num_ranks(), world.size());
  for (size_t i = 0; i < kNumMeshAxes; ++i) {
    const std::array one = {static_cast<MeshAxis>(i)};
    axes_[i] = world.make_group(shape.group_of(world.rank(), one));
  }
  const std::array data_axes = {MeshAxis::kDpReplicate, MeshAxis::kDpShard};
  data_parallel_ = world.make_group(shape.group_of(world.rank(), data_axes));
  data_parallel_->set_name("dp_replicate x dp_shard");
  // A group that lies along one axis alone is called after it.
  for (size_t i = 0; i < kNumMeshAxes; ++i) {
    const auto axis = static_cast<MeshAxis>(i);
    if (shape.size(axis) > 1) axes_[i]->set_name(name_of(axis));
  }
}

}  // namespace fovea::parallel
