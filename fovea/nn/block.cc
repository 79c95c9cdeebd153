#include "fovea/nn/block.h"

#include <memory>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {
namespace {

using Tensors = std::vector<at::Tensor>;

template <class Impl>
TransformerBlock made(const BlockOptions& options, at::Device device) {
  const std::shared_ptr<TransformerBlockImpl> block = std::make_shared<Impl>(options, device);
  return TransformerBlock(block);
}

}  // namespace

BlockKind block_from_name(const std::string& name) {
  if (name == "pre_norm") return BlockKind::kPreNorm;
  if (name == "res_post_norm") return BlockKind::kResPostNorm;
  if (name == "parallel_things") return BlockKind::kParallelThings;
  if (name == "parallel_scaling") return BlockKind::kParallelScaling;
  fail<ConfigError>(
      "block '{}' is unknown; expected pre_norm, res_post_norm, parallel_things or "
      "parallel_scaling",
      name);
}

std::vector<std::string> block_names() {
  return {"pre_norm", "res_post_norm", "parallel_things", "parallel_scaling"};
}

TransformerBlock make_block(const BlockOptions& options, at::Device device) {
  switch (options.kind) {
    case BlockKind::kPreNorm:
    case BlockKind::kResPostNorm:
      return made<BlockImpl>(options, device);
    case BlockKind::kParallelThings:
      return made<ParallelThingsBlockImpl>(options, device);
    case BlockKind::kParallelScaling:
      return made<ParallelScalingBlockImpl>(options, device);
  }
  fail("block kind {} is not in the table", static_cast<int>(options.kind));
}

BlockImpl::BlockImpl(const BlockOptions& options, at::Device device)
    : is_post_norm_(options.kind == BlockKind::kResPostNorm),
      drop_path_{options.drop_path_rate, options.drop_path_skip} {
  const auto dim = options.attention.dim;
  const bool has_scale = options.has_layer_scale && !is_post_norm_;
  // In timm's order.
  if (!is_post_norm_) norm1_ = register_module("norm1", Norm(dim, options.norm, device));
  attn_ = register_module("attn", Attention(options.attention, device));
  if (is_post_norm_) norm1_ = register_module("norm1", Norm(dim, options.norm, device));
  if (has_scale) ls1_ = register_module("ls1", LayerScale(dim, device));
  if (!is_post_norm_) norm2_ = register_module("norm2", Norm(dim, options.norm, device));
  mlp_ = register_module("mlp", Mlp(options.mlp, device));
  if (is_post_norm_) norm2_ = register_module("norm2", Norm(dim, options.norm, device));
  if (has_scale) ls2_ = register_module("ls2", LayerScale(dim, device));
}

// in: tokens and their mask; before them, with num_read, those tokens that an output is asked of.
at::Tensor BlockImpl::attended(const Tensors& in, const at::Tensor& starts,
                               const at::Tensor& residual, int64_t num_read) const {
  const auto& tokens = in[in.size() - 2];
  const auto& mask = in.back();
  if (is_post_norm_)
    return onto(residual, norm1_(attn_(tokens, mask, starts, at::Tensor(), num_read)));
  const auto normed = norm1_->for_linear(tokens);
  return attn_(normed, mask, starts, normed.skip_for(residual, tokens), num_read);
}

at::Tensor BlockImpl::fed_forward(const at::Tensor& x, const at::Tensor& residual) const {
  if (is_post_norm_) return onto(residual, norm2_(mlp_(x)));
  const auto normed = norm2_->for_linear(x);
  return mlp_(normed, normed.skip_for(residual, x));
}

// Note [Tokens that are read]
// What reads a few tokens alone, such as a head the class token, needs of the last block an output
// of those alone: keys and values of all tokens, and behind attention, where most of the work is,
// nothing of the others. In training in float32, bits of those that are read are the same, as all
// of it works token by token; in bfloat16 another kernel may attend for few (self_attention), and
// inference may do without the keys and values, too (read_attention.h). Of samples in a row, and
// where a part of each sequence alone is here, all are made; and for somebody who records
// intermediates, in a second run as in the first, which does not record.
at::Tensor BlockImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                              const at::Tensor& offsets, int64_t num_read) const {
  const auto* recorder = forward_context().recorder;
  const bool is_all_recorded = recorder && recorder->tokens == RecordedTokens::kAll;
  const int64_t num_asked = is_all_recorded ? 0 : num_read;
  return run(
      [this, num_asked](const at::Tensor& tokens, const at::Tensor& mask,
                        const at::Tensor& starts) {
        const bool is_whole = !starts.defined() && forward_context().sequence_length == 0;
        const int64_t num_made = is_whole ? num_asked : 0;
        Tensors in = {tokens, mask};
        if (num_made > 0) in.insert(in.begin(), tokens.narrow(1, 0, num_made));
        const auto y = add_branch(*this, "drop_path1", drop_path_, in, ls1_,
                                  [&](const Tensors& given, const at::Tensor& residual) {
                                    return attended(given, starts, residual, num_made);
                                  });
        return add_branch(*this, "drop_path2", drop_path_, {y}, ls2_,
                          [this](const Tensors& in, const at::Tensor& residual) {
                            return fed_forward(in[0], residual);
                          });  // [B, N, D]
      },
      x, key_mask, offsets);
}

ParallelThingsBlockImpl::ParallelThingsBlockImpl(const BlockOptions& options, at::Device device)
    : drop_path_{options.drop_path_rate, options.drop_path_skip} {
  FOVEA_CHECK(options.num_parallel > 0, "{} branches side by side; expected at least 1",
              options.num_parallel);
  const auto attns = register_module("attns", std::make_shared<torch::nn::Module>());
  const auto ffns = register_module("ffns", std::make_shared<torch::nn::Module>());
  for (int64_t i = 0; i < options.num_parallel; ++i) {
    attns_.push_back(register_branch(*attns, "attns", i, options, device));
    ffns_.push_back(register_branch(*ffns, "ffns", i, options, device));
  }
}

ParallelThingsBlockImpl::Branch ParallelThingsBlockImpl::register_branch(
    torch::nn::Module& list, const std::string& list_name, int64_t index,
    const BlockOptions& options, at::Device device) {
  const auto name = std::to_string(index);
  const auto dim = options.attention.dim;
  const auto part = list.register_module(name, std::make_shared<torch::nn::Module>());
  Branch branch{.drop_name = list_name + "." + name + ".drop_path"};
  branch.norm = part->register_module("norm", Norm(dim, options.norm, device));
  if (list_name == "attns") {
    branch.attn = part->register_module("attn", Attention(options.attention, device));
  } else {
    branch.mlp = part->register_module("mlp", Mlp(options.mlp, device));
  }
  if (options.has_layer_scale) branch.ls = part->register_module("ls", LayerScale(dim, device));
  return branch;
}

at::Tensor ParallelThingsBlockImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                                            const at::Tensor& offsets, int64_t /*num_read*/) const {
  return run(
      [this](const at::Tensor& tokens, const at::Tensor& mask, const at::Tensor& starts) {
        auto y = tokens;
        // What is added to comes first, what the branch is of second.
        for (auto& branch : attns_) {
          y = add_branch(*this, branch.drop_name.c_str(), drop_path_, {y, tokens, mask}, branch.ls,
                         [&](const Tensors& in, const at::Tensor& residual) {
                           return branch.attn(branch.norm->for_linear(in[1]), in[2], starts,
                                              residual);
                         });
        }
        const auto attended = y;
        for (auto& branch : ffns_) {
          y = add_branch(*this, branch.drop_name.c_str(), drop_path_, {y, attended}, branch.ls,
                         [&](const Tensors& in, const at::Tensor& residual) {
                           return branch.mlp(branch.norm->for_linear(in[1]), residual);
                         });
        }
        return y;  // [B, N, D]
      },
      x, key_mask, offsets);
}

}  // namespace fovea::nn
