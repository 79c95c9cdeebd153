// How the layers that models have in common are shared out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/nn/block.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

// The blocks that nn::make_block makes, or nn::ConditionedBlocks, `list`.0, `list`.1 ...: heads and
// hidden features are split, and their tokens are regions. taps: ascending indices of blocks behind
// each of which the model wants all tokens.
void add_blocks(parallel::Partitioning& partitioning, const std::string& list, int64_t depth,
                const nn::BlockOptions& block, const std::vector<int64_t>& taps = {});
void add_conditioned_blocks(parallel::Partitioning& partitioning, const std::string& list,
                            int64_t depth, const nn::BlockOptions& block, int64_t condition_dim);

// An nn::Mlp at a path.
void add_mlp(parallel::Partitioning& partitioning, const std::string& path,
             const nn::MlpOptions& mlp);

// A Linear at a path that takes and gives whole features, in_features of them, such as a head.
void add_row_of_whole(parallel::Partitioning& partitioning, const std::string& path,
                      int64_t in_features, const std::string& name = "embed_dim");

// Units outside of blocks; see parallel::GatheredUnit.
void add_units(parallel::Partitioning& partitioning, const std::vector<std::string>& paths);

// Parameters, or globs, that are on every rank.
void add_whole(parallel::Partitioning& partitioning, const std::vector<std::string>& patterns);

}  // namespace fovea::models
