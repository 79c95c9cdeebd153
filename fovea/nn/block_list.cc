#include "fovea/nn/block_list.h"

namespace fovea::nn {

std::vector<double> drop_path_rates(double rate, int64_t depth) {
  std::vector<double> rates(static_cast<size_t>(depth), 0.0);
  for (int64_t i = 1; i < depth; ++i) {
    rates[i] = rate * static_cast<double>(i) / static_cast<double>(depth - 1);
  }
  return rates;
}

}  // namespace fovea::nn
