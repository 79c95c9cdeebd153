#include "fovea/train/run/rank_times.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::train {

void RankTimes::add(const RankTimes& other) {
  seconds += other.seconds;
  data += other.data;
  comm += other.comm;
}

std::vector<RankTimes> gather_times(const RankTimes& own, parallel::Communicator& ranks) {
  const auto mine = at::empty({3}, at::kDouble);
  auto* values = mine.data_ptr<double>();
  values[0] = own.seconds, values[1] = own.data, values[2] = own.comm;
  const auto all = at::empty({ranks.size(), 3}, at::kDouble);
  ranks.all_gather(all, mine, "times");
  std::vector<RankTimes> times;
  const auto found = all.accessor<double, 2>();
  for (int64_t rank = 0; rank < ranks.size(); ++rank)
    times.push_back({found[rank][0], found[rank][1], found[rank][2]});
  return times;
}

Straggler find_straggler(std::span<const RankTimes> times) {
  FOVEA_CHECK(times.size() >= 2, "a straggler among {} ranks; expected two or more", times.size());
  const auto share = [](const RankTimes& rank) { return rank.comm / std::max(rank.seconds, 1e-9); };
  const auto slowest =
      std::min_element(times.begin(), times.end(),
                       [&](const auto& a, const auto& b) { return share(a) < share(b); });
  double sum = 0;
  for (const auto& rank : times) sum += share(rank);
  const auto count = static_cast<double>(times.size());
  return {.comm_share = sum / count,
          .rank = slowest - times.begin(),
          .waited_share = (sum - count * share(*slowest)) / (count - 1),
          .data_share = slowest->data / std::max(slowest->seconds, 1e-9)};
}

std::string text_of(const Straggler& straggler) {
  return fmt::format(
      "{:.1f} % of the time in communication; the others waited for rank {}, {:.1f} % of the time "
      "(which itself waited {:.1f} % for data)",
      100 * straggler.comm_share, straggler.rank, 100 * straggler.waited_share,
      100 * straggler.data_share);
}

}  // namespace fovea::train
