#include "fovea/elastic/solve/count_solver.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace fovea::elastic {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Up to `devices` of the offers in the order of `before`: how many, and calls body(offer, taken).
template <class Before, class Body>
int64_t take_in_order(const std::vector<KindOffer>& offers, int64_t devices, Before before,
                      Body body) {
  std::vector<const KindOffer*> order;
  order.reserve(offers.size());
  for (const auto& offer : offers) {
    if (offer.capacity > 0 && offer.count > 0) order.push_back(&offer);
  }
  std::sort(order.begin(), order.end(), [&](auto* a, auto* b) { return before(*a, *b); });
  int64_t sum = 0;
  for (const auto* offer : order) {
    const auto taken = std::min(devices - sum, offer->count);
    if (taken > 0) body(*offer, taken);
    sum += taken;
  }
  return sum;
}

// Note [Price of fractions]
// With a price l for each sample that is held too few or too many, the choice of N devices that
// costs least is that of the N with the least price - l capacity, and l samples plus it bounds
// what any choice that holds the samples costs, for every l from 0. The best l is where two kinds
// change places: there it is what fractions of devices would cost.
double bound_at(const std::vector<KindOffer>& offers, int64_t devices, int64_t samples, double l) {
  std::vector<std::pair<double, int64_t>> items;  // price - l capacity, count
  for (const auto& offer : offers) {
    if (offer.capacity < 1 || offer.count < 1) continue;
    items.emplace_back(offer.price - l * static_cast<double>(offer.capacity), offer.count);
  }
  std::sort(items.begin(), items.end());
  double sum = l * static_cast<double>(samples);
  for (const auto& [value, count] : items) {
    const auto taken = std::min(devices, count);
    sum += static_cast<double>(taken) * value;
    devices -= taken;
  }
  return sum;
}

// Of many kinds trying each pair of them would take long: the bound, a concave function of l, is
// climbed instead. Wherever that ends it is a bound.
constexpr size_t kFewKinds = 8;
double bound_by_thirds(const std::vector<KindOffer>& offers, int64_t devices, int64_t samples,
                       double enough) {
  double low = 0, high = 0;
  for (const auto& offer : offers) high = std::max(high, offer.price);
  double bound = bound_at(offers, devices, samples, 0);
  for (int i = 0; i < 24 && bound < enough; ++i) {
    const double left = low + (high - low) / 3, right = high - (high - low) / 3;
    const double at_left = bound_at(offers, devices, samples, left);
    const double at_right = bound_at(offers, devices, samples, right);
    bound = std::max({bound, at_left, at_right});
    (at_left < at_right ? low : high) = at_left < at_right ? left : right;
  }
  return bound;
}

// Branch and bound over kinds, one after the other.
class ChoiceSearch {
 public:
  ChoiceSearch(const std::vector<KindOffer>& offers, double below)
      : offers_(offers), best_price_(below), current_(offers.size(), 0) {}

  std::optional<std::vector<int64_t>> run(int64_t devices, int64_t samples) {
    visit(0, devices, samples, 0);
    return best_;
  }

 private:
  void visit(size_t kind, int64_t devices, int64_t samples, double price) {
    if (kind == offers_.size()) {
      if (devices == 0 && samples <= 0 && price < best_price_) {
        best_price_ = price;
        best_ = current_;
      }
      return;
    }
    const std::vector<KindOffer> rest(offers_.begin() + static_cast<std::ptrdiff_t>(kind),
                                      offers_.end());
    // Sums in another order differ in their last bits: less than that is no gain.
    const double enough = best_price_ * (1 - 1e-12);
    if (price + price_bound(rest, devices, samples, enough - price) >= enough) return;
    const auto& offer = offers_[kind];
    const auto most = offer.capacity < 1 ? 0 : std::min(offer.count, devices);
    for (const auto taken : by_promise(rest, devices, samples, most)) {
      current_[kind] = taken;
      visit(kind + 1, devices - taken, samples - taken * offer.capacity,
            price + static_cast<double>(taken) * offer.price);
    }
    current_[kind] = 0;
  }

  // How many of the first kind to try, the lowest bound first, without those that cannot do.
  std::vector<int64_t> by_promise(const std::vector<KindOffer>& rest, int64_t devices,
                                  int64_t samples, int64_t most) const {
    const std::vector<KindOffer> others(rest.begin() + 1, rest.end());
    std::vector<std::pair<double, int64_t>> found;
    for (int64_t taken = 0; taken <= most; ++taken) {
      const auto left = samples - taken * rest[0].capacity;
      const double bound = others.empty() ? (devices == taken && left <= 0 ? 0 : kNever)
                                          : price_bound(others, devices - taken, left);
      if (bound == kNever) continue;
      found.emplace_back(bound + static_cast<double>(taken) * rest[0].price, taken);
    }
    std::sort(found.begin(), found.end());
    std::vector<int64_t> order;
    for (const auto& [bound, taken] : found) order.push_back(taken);
    return order;
  }

  const std::vector<KindOffer>& offers_;
  double best_price_;
  std::vector<int64_t> current_;
  std::optional<std::vector<int64_t>> best_;
};

}  // namespace

HeldSamples most_samples(const std::vector<KindOffer>& offers, int64_t devices) {
  HeldSamples held;
  held.devices = take_in_order(
      offers, devices, [](const auto& a, const auto& b) { return a.capacity > b.capacity; },
      [&](const auto& offer, int64_t taken) { held.samples += taken * offer.capacity; });
  return held;
}

double least_price(const std::vector<KindOffer>& offers, int64_t devices) {
  double price = 0;
  const auto taken = take_in_order(
      offers, devices, [](const auto& a, const auto& b) { return a.price < b.price; },
      [&](const auto& offer, int64_t count) { price += static_cast<double>(count) * offer.price; });
  return taken < devices ? kNever : price;
}

double price_bound(const std::vector<KindOffer>& offers, int64_t devices, int64_t samples,
                   double enough) {
  const auto held = most_samples(offers, devices);
  if (held.devices < devices || held.samples < samples) return kNever;
  if (offers.size() > kFewKinds) return bound_by_thirds(offers, devices, samples, enough);
  double bound = bound_at(offers, devices, samples, 0);
  for (size_t i = 0; i < offers.size(); ++i) {
    for (size_t k = i + 1; k < offers.size(); ++k) {
      const auto more = static_cast<double>(offers[i].capacity - offers[k].capacity);
      if (more == 0) continue;
      const double l = (offers[i].price - offers[k].price) / more;
      if (l > 0) bound = std::max(bound, bound_at(offers, devices, samples, l));
    }
  }
  return bound;
}

std::optional<std::vector<int64_t>> cheapest_choice(const std::vector<KindOffer>& offers,
                                                    int64_t devices, int64_t samples,
                                                    double below) {
  return ChoiceSearch(offers, below).run(devices, samples);
}

double price_of(const std::vector<KindOffer>& offers, const std::vector<int64_t>& choice) {
  double price = 0;
  for (size_t i = 0; i < offers.size(); ++i) {
    price += static_cast<double>(choice[i]) * offers[i].price;
  }
  return price;
}

}  // namespace fovea::elastic
