#include "fovea/serve/http/server_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "fovea/core/text.h"
#include "fovea/serve/http/error_response.h"
#include "fovea/serve/protocol/status_error.h"

namespace fovea::serve {
namespace {

bool is_plain(char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

}  // namespace

void HeldBytes::grow_to(size_t total) {
  const int64_t more = static_cast<int64_t>(total) - bytes_;
  if (more <= 0) return;
  if (!budget_.take(more)) fail_with(503, "too many large bodies at one time; try again");
  bytes_ += more;
}

int64_t OpenConnections::add(std::function<void()> on_drain) {
  const std::lock_guard lock(mutex_);
  entries_.emplace(next_, std::move(on_drain));
  return next_++;
}

void OpenConnections::remove(int64_t number) {
  const std::lock_guard lock(mutex_);
  entries_.erase(number);
  if (entries_.empty()) none_left_.notify_all();
}

int64_t OpenConnections::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

void OpenConnections::tell_to_drain() {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, on_drain] : entries_) on_drain();
}

bool OpenConnections::wait_until_none(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return none_left_.wait_for(lock, patience, [this] { return entries_.empty(); });
}

ServerState::ServerState(HttpHandler& handler_in, const HttpLimits& limits_in, Access access_in)
    : handler(handler_in),
      limits(limits_in),
      access(std::move(access_in)),
      bodies(limits_in.all_bodies_bytes),
      id_prefix_(fmt::format("{:08x}", std::random_device()())) {}

std::string ServerState::id_of(const HttpRequest& request) {
  constexpr size_t kLongestId = 64;
  const auto* const given = find_header(request.headers, "x-request-id");
  if (given != nullptr && !given->empty() && given->size() <= kLongestId &&
      std::all_of(given->begin(), given->end(), is_plain)) {
    return *given;
  }
  return fmt::format("{}-{}", id_prefix_, ++next_id_);
}

}  // namespace fovea::serve
