#include "fovea/optim/adamw.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <optional>

#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/optim/adamw_rule.h"

namespace fovea::optim {
namespace {

// Parameters with equal settings have equal coefficients at every step.
struct AdamWGroup {
  double lr_scale, weight_decay;

  bool operator==(const AdamWGroup&) const = default;
};

// The table of tiles that adamw_step takes, and the groups that it names.
struct AdamWTiles {
  explicit AdamWTiles(const FlatParams& flat) {
    std::vector<int64_t> rows, group_of;  // group_of: by parameter
    for (const auto& spec : flat.params()) {
      const AdamWGroup group{spec.lr_scale, spec.weight_decay};
      const auto found = std::find(groups.begin(), groups.end(), group);
      group_of.push_back(found - groups.begin());
      if (found == groups.end()) groups.push_back(group);
    }
    for (const auto& tile : tiles_of(flat.segments())) {
      rows.insert(rows.end(), {tile.begin, tile.end - tile.begin, group_of[tile.segment]});
    }
    const int64_t columns = kernels::kAdamWTileColumns;
    table = at::from_blob(rows.data(), {static_cast<int64_t>(rows.size()) / columns, columns},
                          at::TensorOptions().dtype(at::kLong))
                .to(flat.param().device(), /*non_blocking=*/false, /*copy=*/true);
  }

  at::Tensor table;  // [T, 3] int64
  std::vector<AdamWGroup> groups;
};

class AdamW final : public ElementwiseOptimizer {
 public:
  AdamW(const AdamWConfig& config, std::vector<ParamSpec> params, Implementation implementation)
      : ElementwiseOptimizer("adamw", std::move(params), {"exp_avg", "exp_avg_sq"}, implementation,
                             kernels::has_adamw_step),
        rule_{config.betas.at(0), config.betas.at(1), config.eps} {}

 private:
  void update_fused(const at::Tensor& /*grad*/, double lr) override {
    update_in_one_pass(lr, {}, {});
  }

  kernels::Recordable can_be_recorded() const override {
    return is_fused() ? kernels::Recordable() : Optimizer::can_be_recorded();
  }

  void prepare(double lr, const StepExtras& extras) override {
    if (!is_fused()) return;
    if (!tiles_) tiles_.emplace(flat());
    coefficients_.clear();
    for (const auto& group : tiles_->groups) {
      coefficients_.push_back(
          rule_.coefficients(lr * group.lr_scale, group.weight_decay, steps_taken()));
      coefficients_.back().average_weight = static_cast<float>(extras.average_weight);
    }
  }

  bool update_in_one_pass(double /*lr*/, const StepExtras& extras,
                          const at::Tensor& weight_copies) override {
    if (!is_fused()) return false;
    kernels::adamw_step({flat().param(), flat().grad(), moment(0), moment(1)}, tiles_->table,
                        kernels::adamw_coefficients(coefficients_, flat().param().device()),
                        {.clip = extras.clip, .average = extras.average, .copy = weight_copies});
    return true;
  }

  void update_group(PlainGroup& group, double lr) override {
    rule_.update(group, lr, steps_taken());
  }

  AdamWRule rule_;
  // Of the fused update, from the first step on.
  std::optional<AdamWTiles> tiles_;
  std::vector<kernels::AdamWCoefficients> coefficients_;  // of the step, by group
};

}  // namespace

void AdamWConfig::validate(ConfigIssues& issues) const { validate_betas(betas, issues); }

std::unique_ptr<Optimizer> make_adamw(const AdamWConfig& config, std::vector<ParamSpec> params,
                                      Implementation implementation) {
  return std::make_unique<AdamW>(config, std::move(params), implementation);
}

}  // namespace fovea::optim
