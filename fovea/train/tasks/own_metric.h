// Metrics from outside of this library: once registered, a recipe names them with
// `task: {own_metrics: [NAME]}`.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::train {

// On the CPU, float32 and int64 -> one number, of which more is better. Of a classification it is
// given all samples of an evaluation, in the order of the data set: logits [N, C], labels [N]; of a
// segmentation one, and the mean over samples is reported: logits [1, C, sides], labels [1, sides],
// -1 where a pixel counts for nothing.
using OwnMetric = std::function<double(const at::Tensor& logits, const at::Tensor& labels)>;

// To be called before a recipe is read, from one thread. A name that is there already stands for
// this one from now on.
void register_metric(const std::string& name, OwnMetric metric);

// Throws ConfigError: nobody has registered one of the names.
void find_own_metrics(const std::vector<std::string>& names);

// Issues of `own_metrics` of a task that has these metrics itself, some also for each class, _0 ...
void check_own_metrics(const std::vector<std::string>& names, std::set<std::string> taken,
                       ConfigIssues& issues);

// What it gives of these. Throws ConfigError for a name as above, and Error where it is not finite.
double own_metric_of(const std::string& name, const at::Tensor& logits, const at::Tensor& labels);

}  // namespace fovea::train
