// What becomes of a model's parameters and tokens when its layers are shared out: plain data,
// stated beside each model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::parallel {

// T ranks share out a layer.
enum class Split {
  kWhole,        // on every rank, which sees all that it is applied to
  kColumn,       // of a Linear: rows of weight and bias, 1/T each; what comes out is split
  kRow,          // of a Linear: columns of the weight; takes split features, gives whole ones
  kRowOfWhole,   // the same of a Linear that takes whole features
  kByHead,       // on every rank, which applies it to its own heads
  kNormOfSplit,  // of a Norm of split features: on every rank, and the features are joined for it
};

struct SplitRule {
  std::string pattern;  // glob over parameter names; * matches dots, too
  Split split = Split::kWhole;
  int64_t blocks = 1;  // kColumn: matrices on top of each other, each split by itself: 3 of qkv
  int64_t lead = 0;    // kColumn: rows, kRow: columns in front of them that are split by themselves
  // What the split features are made of and what stays together, so that T divides their number.
  int64_t groups = 0;
  std::string groups_name = {};  // in messages: "num_heads"
};

// Units that follow each other and work on single tokens but for self-attention, first to last:
// nn::Block and its like. Their first input, and the output of the last one, is [B, N, D].
struct SequenceRegion {
  std::vector<std::string> units;  // paths
  double attn_drop_rate = 0.0;     // of probabilities
};

// A unit outside of lists of blocks that every forward of the model runs, and whose parameters its
// own forward alone uses: what it has may be shared out, and gathered when it runs.
struct GatheredUnit {
  std::string path;
  std::vector<std::string> also = {};  // parameters of which the same holds but for their place
};

struct Partitioning {
  std::vector<SplitRule> rules;  // the first one that matches a name holds
  std::vector<SequenceRegion> regions;
  std::vector<GatheredUnit> units;
};

// The rule of each name, as an index. Throws Error naming the parameters without a rule and the
// rules that hold for nothing.
std::vector<size_t> match_rules(const Partitioning& partitioning,
                                std::span<const std::string> names);

}  // namespace fovea::parallel
