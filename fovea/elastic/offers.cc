#include "fovea/elastic/offers.h"

#include <chrono>

#include "fovea/parallel/greeting.h"

namespace fovea::elastic {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr size_t kMostKept = 4;  // a generation that is being left may still use the one before

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

}  // namespace

Offers::Offers(std::string address) : address_(std::move(address)) { make(); }

void Offers::make() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto listeners = parallel::listen_at(address_, 0, !is_loopback(address_), deadline);
  StoreRecord place{
      .address = address_, .port = listeners.front().port(), .secret = parallel::draw_secret()};
  places_.emplace_back(std::move(place), std::move(listeners));
  if (places_.size() > kMostKept) places_.pop_front();
}

StoreRecord Offers::current() const {
  const std::lock_guard lock(mutex_);
  return places_.back().first;
}

bool Offers::renew_after(const StoreRecord& taken) {
  const std::lock_guard lock(mutex_);
  if (places_.back().first != taken) return false;
  make();
  return true;
}

const std::vector<parallel::Socket>* Offers::listeners_of(const StoreRecord& place) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [offered, listeners] : places_) {
    if (offered == place) return &listeners;
  }
  return nullptr;
}

}  // namespace fovea::elastic
