// Tensor, sequence and context parallel, applied to a model from outside by its partitioning.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fovea/kernels/tensor_part.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/partitioning.h"
#include "fovea/parallel/sequence.h"

namespace fovea::parallel {

// Note [Split parameters]. Of a split parameter each rank of tp keeps a part: rows of a column
// split, within each of its blocks, and columns of a row split. The part is cut from the whole, so
// that weights at step 0 and saved ones are what they are on one rank. Parameters that are not
// split are equal on all ranks of tp and cp, bit for bit, and stay so: their gradients are either
// computed alike everywhere, or summed over the ranks by sum_gradients.
class ModelParallel {
 public:
  // Cuts the parameters of `model`, which hold values and no gradients yet, and sets the model up.
  // Both the mesh and this outlive the model's use. Throws Error where the partitioning does not
  // fit.
  ModelParallel(torch::nn::Module& model, const Partitioning& partitioning, const DeviceMesh& mesh,
                bool sequence_parallel, CpMethod cp_method = CpMethod::kAllToAll);
  ModelParallel(const ModelParallel&) = delete;
  ModelParallel& operator=(const ModelParallel&) = delete;

  // False where tp and cp are 1: then nothing was changed, and all below does nothing.
  bool is_on() const { return tp_.size() * cp_.size() > 1; }
  // What this rank has of a parameter: nothing where that is whole.
  std::optional<kernels::TensorCut> cut_of(const std::string& name) const;
  bool is_split(const std::string& name) const { return split_.contains(name); }
  // The ranks that have the other parts of split parameters, and the same of all others.
  Communicator& tp() const { return tp_; }

  // After backward, and after data parallel's sums: gradients of which each rank has a share become
  // the sum of the shares. leaves: all trained parameters by name, or leaves that stand for the
  // same part of each on all ranks of tp and cp, in one order. Two collectives at most.
  void sum_gradients(const std::vector<std::pair<std::string, at::Tensor>>& leaves) const;
  // The largest over tp and cp, e.g. of a request to stop. Collective over both.
  double max_over_ranks(double number) const;

 private:
  void split_linear(torch::nn::Module& owner, const SplitRule& rule, bool is_in_region);
  void split_parameter(const std::string& name, at::Tensor& param, const SplitRule& rule);
  void share_out_layers(torch::nn::Module& model, const Partitioning& partitioning);
  void share_out_drops(torch::nn::Module& model, const std::vector<std::string>& regions);

  Communicator& tp_;
  Communicator& cp_;
  SequenceGroups sequence_;
  std::map<std::string, kernels::TensorCut> split_;
  std::set<std::string> partial_over_tp_, partial_over_cp_;
};

}  // namespace fovea::parallel
