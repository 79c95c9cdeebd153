#include "fovea/elastic/profile/collective_meter.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>

#include "fovea/core/median.h"
#include "fovea/train/bench/bench_workload.h"

namespace fovea::elastic {
namespace {

using parallel::Communicator;

constexpr int64_t kWarmup = 2, kFirst = 30;  // before those that count; of the group
constexpr int64_t kSmallest = 16 << 10, kAlwaysUpTo = 4 << 20;
constexpr double kBytesOfMegabyte = 1 << 20;

struct Tensors {
  at::Tensor whole, part;  // [ranks * n], [n]
};

void run(Communicator& ranks, parallel::Collective collective, const Tensors& tensors) {
  constexpr const char* kWhat = "a measurement";
  switch (collective) {
    case parallel::Collective::kReduceScatter:
      return ranks.reduce_scatter(tensors.part, tensors.whole, kWhat);
    case parallel::Collective::kAllGather:
      return ranks.all_gather(tensors.whole, tensors.part, kWhat);
    default:
      return ranks.all_reduce(tensors.whole, kWhat);
  }
}

double median_ms(Communicator& ranks, parallel::Collective collective, const Tensors& tensors,
                 const CollectiveMeter& meter) {
  std::vector<double> times;
  for (int64_t i = 0; i < kWarmup + meter.repeats; ++i) {
    ranks.barrier("a measurement");
    const double seconds =
        train::seconds_of(meter.device, [&] { run(ranks, collective, tensors); });
    if (i >= kWarmup) times.push_back(1000 * seconds);
  }
  return parallel::max_over_ranks(ranks, fovea::median(std::move(times)), "a measured time");
}

}  // namespace

std::vector<CommunicationPoint> measure_collectives(Communicator& ranks,
                                                    const CollectiveMeter& meter) {
  std::vector<CommunicationPoint> points;
  const auto first = at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(meter.device));
  for (int64_t i = 0; i < kFirst; ++i) ranks.all_reduce(first, "a measurement");
  for (const auto bytes : meter.bytes) {
    const auto elements = std::max<int64_t>(1, bytes / 4 / ranks.size());  // of a part
    const auto options = at::TensorOptions().dtype(at::kFloat).device(meter.device);
    const Tensors tensors{.whole = at::zeros({ranks.size() * elements}, options),
                          .part = at::zeros({elements}, options)};
    for (const auto collective :
         {parallel::Collective::kAllReduce, parallel::Collective::kReduceScatter,
          parallel::Collective::kAllGather}) {
      points.push_back({.collective = name_of(collective),
                        .place = meter.place,
                        .ranks = ranks.size(),
                        .bytes = static_cast<double>(4 * elements * ranks.size()),
                        .ms = median_ms(ranks, collective, tensors, meter)});
    }
    if (meter.pause) meter.pause();
  }
  return points;
}

std::vector<int64_t> sizes_to_measure(const std::vector<double>& bucket_megabytes) {
  double largest = kAlwaysUpTo;
  for (const double megabytes : bucket_megabytes)
    largest = std::max(largest, megabytes * kBytesOfMegabyte);
  std::vector<int64_t> sizes;
  for (int64_t bytes = kSmallest; static_cast<double>(bytes) < largest; bytes *= 4) {
    sizes.push_back(bytes);
  }
  sizes.push_back(static_cast<int64_t>(largest));
  return sizes;
}

std::vector<int64_t> rank_counts(int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t count = 2; count < most; count *= 2) counts.push_back(count);
  if (most >= 2) counts.push_back(most);
  return counts;
}

}  // namespace fovea::elastic
