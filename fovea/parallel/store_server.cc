#include "fovea/parallel/store_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "fovea/core/parse_number.h"
#include "fovea/files/sha256.h"

namespace fovea::parallel {
namespace {

using ServerClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGreetingPatience{10};
constexpr std::chrono::milliseconds kTick{500};
constexpr size_t kMaxStrangers = 256;
constexpr size_t kGreetingBytes = kStoreHello.size() + kNonceBytes;
constexpr size_t kEntryBytes = 64;  // of a name besides its texts

int64_t number_in(const std::string& text) {
  const auto number = parse_number<int64_t>(text);
  if (!number) fail<DataError>("a number is added to what is none");
  return *number;
}

int64_t sum_of(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail<DataError>("a sum of more than 64 bits");
  return sum;
}

}  // namespace

struct StoreServer::Visitor {
  enum class State { kUnknown, kGreeted, kKnown };

  Socket socket;
  State state = State::kUnknown;
  Deadline greeting_ends = ServerClock::now() + kGreetingPatience;
  std::string rank_nonce{}, store_nonce{};
  std::string received{}, to_send{};

  size_t num_pending() const { return received.size() + to_send.size(); }
};

StoreServer::StoreServer(std::vector<Socket> listeners, std::string secret, size_t max_bytes)
    : listeners_(std::move(listeners)),
      secret_(std::move(secret)),
      max_bytes_(max_bytes),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  FOVEA_CHECK(!listeners_.empty(), "a store that listens nowhere");
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_.file(), &one, sizeof one);
  thread_.join();
}

std::optional<std::string> StoreServer::find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

// Who does not read its answers is not read from either, so nobody piles up more than one.
void StoreServer::run() {
  std::vector<pollfd> files;
  for (;;) {
    files = {{.fd = wake_.file(), .events = POLLIN, .revents = 0}};
    for (const auto& listener : listeners_) {
      files.push_back({.fd = listener.file(), .events = POLLIN, .revents = 0});
    }
    for (const auto& visitor : visitors_) {
      const short events = visitor.to_send.empty() ? POLLIN : POLLOUT;
      files.push_back({.fd = visitor.socket.file(), .events = events, .revents = 0});
    }
    if (poll(files.data(), files.size(), static_cast<int>(kTick.count())) < 0 && errno != EINTR) {
      return;
    }
    if (files[0].revents != 0) return;
    const size_t first = 1 + listeners_.size();
    std::vector<Visitor> kept;
    num_pending_ = 0;
    for (const auto& visitor : visitors_) num_pending_ += visitor.num_pending();
    for (size_t i = 0; i < visitors_.size(); ++i) {
      auto& visitor = visitors_[i];
      const auto events = files[first + i].revents;
      const size_t before = visitor.num_pending();
      if (events != 0 && !serve(visitor, events)) continue;
      num_pending_ += visitor.num_pending() - before;
      if (num_pending_ > max_bytes_ && visitor.num_pending() > before) continue;
      kept.push_back(std::move(visitor));
    }
    visitors_ = std::move(kept);
    drop_late_strangers();
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (files[1 + i].revents != 0) accept_from(listeners_[i]);
    }
  }
}

void StoreServer::accept_from(const Socket& listener) {
  Socket socket(accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const auto is_stranger = [](const Visitor& v) { return v.state != Visitor::State::kKnown; };
  const bool is_out_of_files = socket.file() < 0 && (errno == EMFILE || errno == ENFILE);
  const auto strangers = std::count_if(visitors_.begin(), visitors_.end(), is_stranger);
  if (is_out_of_files || static_cast<size_t>(strangers) >= kMaxStrangers) {
    const auto oldest = std::find_if(visitors_.begin(), visitors_.end(), is_stranger);
    if (oldest != visitors_.end()) visitors_.erase(oldest);
    if (is_out_of_files) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (socket.file() < 0) return;
  const int on = 1;
  setsockopt(socket.file(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  visitors_.push_back(Visitor{.socket = std::move(socket)});
}

void StoreServer::drop_late_strangers() {
  const auto now = ServerClock::now();
  std::erase_if(visitors_, [&](const Visitor& visitor) {
    return visitor.state != Visitor::State::kKnown && now > visitor.greeting_ends;
  });
}

bool StoreServer::serve(Visitor& visitor, short events) {
  if (!visitor.to_send.empty() && (events & (POLLERR | POLLHUP)) != 0) return false;
  if (!write_to(visitor)) return false;
  if (visitor.to_send.empty() && !read_from(visitor)) return false;
  try {
    if (!greet(visitor)) return false;
    while (visitor.state == Visitor::State::kKnown && visitor.to_send.empty() &&
           !visitor.received.empty()) {
      const auto request = take_request(visitor.received);
      if (!request) break;
      visitor.to_send = answer(*request);
      if (!write_to(visitor)) return false;
    }
  } catch (const Error&) {  // no request, or one that cannot be met
    return false;
  }
  return true;
}

bool StoreServer::read_from(Visitor& visitor) const {
  std::array<char, 65536> buffer;
  const size_t room = visitor.state == Visitor::State::kKnown
                          ? buffer.size()
                          : kGreetingBytes + kProofBytes - visitor.received.size();
  const auto size = recv(visitor.socket.file(), buffer.data(), room, 0);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  visitor.received.append(buffer.data(), static_cast<size_t>(size));
  return size > 0;
}

// Takes the steps of the greeting for which enough has come. False: it is a stranger.
bool StoreServer::greet(Visitor& visitor) const {
  auto& received = visitor.received;
  if (visitor.state == Visitor::State::kUnknown) {
    const auto size = std::min(received.size(), kStoreHello.size());
    if (received.compare(0, size, kStoreHello, 0, size) != 0) return false;
    if (received.size() < kGreetingBytes) return true;
    visitor.rank_nonce = received.substr(kStoreHello.size(), kNonceBytes);
    visitor.store_nonce = random_bytes();
    visitor.to_send =
        visitor.store_nonce + proof_of_store(secret_, visitor.rank_nonce, visitor.store_nonce);
    received.erase(0, kGreetingBytes);
    visitor.state = Visitor::State::kGreeted;
    if (!write_to(visitor)) return false;
  }
  if (visitor.state == Visitor::State::kGreeted && received.size() >= kProofBytes) {
    const auto expected = proof_of_rank(secret_, visitor.rank_nonce, visitor.store_nonce);
    if (!is_same_secret(received.substr(0, kProofBytes), expected)) return false;
    received.erase(0, kProofBytes);
    visitor.state = Visitor::State::kKnown;
    visitor.to_send += kStoreWelcome;
    return write_to(visitor);
  }
  return true;
}

bool StoreServer::write_to(Visitor& visitor) const {
  auto& bytes = visitor.to_send;
  while (!bytes.empty()) {
    const auto size = send(visitor.socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0) return errno == EAGAIN || errno == EINTR;
    bytes.erase(0, static_cast<size_t>(size));
  }
  return true;
}

std::string StoreServer::answer(const StoreRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = request.keys.empty() ? values_.end() : values_.find(request.keys[0]);
  const auto value = found == values_.end() ? std::string() : found->second;
  switch (request.op) {
    case StoreOp::kValidate:
      if (request.number != kStoreMagic) fail<DataError>("a store of another kind is looked for");
      return "";
    case StoreOp::kSet:
      put(request.keys[0], request.values[0]);
      return "";
    case StoreOp::kCompareSet: {
      if (value != request.values[0]) {
        return wire_text(found == values_.end() ? request.values[0] : value);
      }
      put(request.keys[0], request.values[1]);
      return wire_text(request.values[1]);
    }
    case StoreOp::kGet:
      return wire_text(value);
    case StoreOp::kAdd: {
      const auto sum = sum_of(found == values_.end() ? 0 : number_in(value), request.number);
      put(request.keys[0], std::to_string(sum));
      return wire_number<int64_t>(sum);
    }
    case StoreOp::kCheck:
      return std::string(1,
                         std::all_of(request.keys.begin(), request.keys.end(),
                                     [&](const std::string& key) { return values_.contains(key); })
                             ? '\0'
                             : '\1');
    case StoreOp::kNumKeys:
      return wire_number<int64_t>(static_cast<int64_t>(values_.size()));
    case StoreOp::kDelete:
      if (found == values_.end()) return wire_number<int64_t>(0);
      num_bytes_ -= found->first.size() + found->second.size() + kEntryBytes;
      values_.erase(found);
      return wire_number<int64_t>(1);
    case StoreOp::kPing:
      return wire_number<uint32_t>(static_cast<uint32_t>(request.number));
  }
  fail<DataError>("no such request");
}

void StoreServer::put(const std::string& key, const std::string& value) {
  const auto found = values_.find(key);
  const size_t before =
      found == values_.end() ? 0 : key.size() + found->second.size() + kEntryBytes;
  const size_t after = num_bytes_ - before + key.size() + value.size() + kEntryBytes;
  if (after > max_bytes_) fail<DataError>("the store is full");
  num_bytes_ = after;
  if (found == values_.end()) {
    values_.emplace(key, value);
  } else {
    found->second = value;
  }
}

}  // namespace fovea::parallel
