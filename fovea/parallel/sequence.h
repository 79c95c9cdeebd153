// Sequence and context parallel: the tokens of a region of units, shared out.
//
// Note [Regions]. In front of the first unit of a region the tokens [B, N, D] are padded with zeros
// to a multiple of the ranks and split among them; behind the last one they are joined and the
// padding is dropped. In between, all that works on single tokens sees those of its rank. The
// parameters that it has are on all ranks, each of which has the gradient from its own tokens: a
// part, summed after backward. Self-attention needs all tokens:
// - the ranks of tp (sequence parallel) have the heads split by tensor parallel. Before a column
//   split the tokens are gathered, and behind a row split the sum of its parts is scattered:
//   together the bytes of the all_reduce that stands there otherwise.
// - the ranks of cp (context parallel) have whole layers. An all_to_all behind qkv makes some heads
//   of all tokens out of all heads of some tokens, and another one turns that back (Jacobs et al.
//   2023, "DeepSpeed Ulysses"). Or keys and values go round a ring: see ring_attention.
// Where both are on, tokens are split among cp first, then among tp.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/parallel/exchange.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::parallel {

// N of the region that this thread's forward is in, before padding.
int64_t region_tokens();

// How ranks of cp attend to each other's tokens.
enum class CpMethod { kAllToAll, kRing };
// Of ParallelConfig::cp_method.
CpMethod cp_method_of(const std::string& name);

// The groups that share out tokens; a group of one shares out nothing.
struct SequenceGroups {
  Communicator& cp;
  Communicator& sp;  // the ranks of tp, with sequence parallel

  CpMethod cp_method = CpMethod::kAllToAll;

  bool is_on() const { return cp.size() * sp.size() > 1; }
  // [B, N, D] -> [B, n, D], and back.
  at::Tensor enter(const at::Tensor& x) const;
  at::Tensor leave(const at::Tensor& x) const;
  // In place of the exchanges of tensor parallel: between a rank's tokens and all that the ranks of
  // sp hold together.
  at::Tensor before_columns(const at::Tensor& x) const;
  at::Tensor after_rows(const at::Tensor& x) const;
  // N of the region, with the padding.
  int64_t padded_tokens() const;
};

// Sets up the regions around the units of a model. -> the paths of the units whose parameters see
// the tokens of a rank alone; those below them do, too, but for what is one for all tokens
// (nn::Modulation). `groups` outlives the model's use.
std::vector<std::string> share_out_tokens(torch::nn::Module& model,
                                          const Partitioning& partitioning,
                                          const SequenceGroups& groups);

}  // namespace fovea::parallel
