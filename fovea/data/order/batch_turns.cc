#include "fovea/data/order/batch_turns.h"

#include <algorithm>

#include "fovea/data/order/permutation.h"

namespace fovea::data {

std::vector<int64_t> BatchTurns::make_numbers(int64_t epoch) const {
  const int64_t count = ends_.back();
  const Permutation permutation(count, seed_, epoch);
  std::vector<int64_t> seen(ends_.size()), numbers;
  for (int64_t turn = 0; turn < count; ++turn) {
    const auto set =
        std::upper_bound(ends_.begin(), ends_.end(), permutation(turn)) - ends_.begin();
    numbers.push_back(seen[static_cast<size_t>(set)]++);
  }
  return numbers;
}

int64_t BatchTurns::number(int64_t turn, int64_t epoch) const {
  const auto numbers = numbers_.get(epoch, [&] { return make_numbers(epoch); });
  return numbers->at(static_cast<size_t>(turn));
}

}  // namespace fovea::data
