#include "fovea/models/sap_partitioning.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/models/vit_partitioning.h"

namespace fovea::models {

// The decoder is one small product of weights, made before any token is there.
parallel::Partitioning partitioning_of(const SapConfig& config) {
  parallel::Partitioning partitioning;
  add_vit(partitioning, config.encoder.vit, "encoder.");
  add_whole(partitioning, {"up", "head.*"});
  partitioning.units.push_back({.path = "head", .also = {"up"}});
  return partitioning;
}

}  // namespace fovea::models
