// For the solver: devices of several kinds, all of which may take so many samples at most.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace fovea::elastic {

// One kind: up to `count` devices, each with 1 to `capacity` samples (0: none), at a price.
struct KindOffer {
  int64_t count = 0;
  int64_t capacity = 0;
  double price = 0;
};

// The most samples that up to `devices` of them hold together, and how many these are.
struct HeldSamples {
  int64_t devices = 0;
  int64_t samples = 0;
};
HeldSamples most_samples(const std::vector<KindOffer>& offers, int64_t devices);

// Of so many of them, whatever they hold; infinity where there are fewer.
double least_price(const std::vector<KindOffer>& offers, int64_t devices);

// No choice of `devices` of them that hold `samples` costs less; infinity where none holds them. A
// bound from `enough` on need not be the best one.
double price_bound(const std::vector<KindOffer>& offers, int64_t devices, int64_t samples,
                   double enough = std::numeric_limits<double>::infinity());

// The cheapest choice of exactly so many devices that hold the samples, and cost less than
// `below`: how many of each kind. Nothing where there is none.
std::optional<std::vector<int64_t>> cheapest_choice(const std::vector<KindOffer>& offers,
                                                    int64_t devices, int64_t samples, double below);

double price_of(const std::vector<KindOffer>& offers, const std::vector<int64_t>& choice);

}  // namespace fovea::elastic
