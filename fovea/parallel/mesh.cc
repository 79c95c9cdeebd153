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
}

}  // namespace fovea::parallel
