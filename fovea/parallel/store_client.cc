#include "fovea/parallel/store_client.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "fovea/core/printable.h"
#include "fovea/parallel/greeting.h"
#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

using ClientClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLongestAttempt{10000};
constexpr milliseconds kLongestRest{200};  // between two looks for a value, or two attempts

template <class T>
T receive_number(const Socket& socket, Deadline deadline) {
  T number{};
  std::memcpy(&number, socket.receive(sizeof number, deadline).data(), sizeof number);
  return number;
}

std::vector<uint8_t> receive_value(const Socket& socket, Deadline deadline) {
  const auto size = receive_number<uint64_t>(socket, deadline);
  if (size > kMaxValueBytes) {
    throw SocketError(
        SocketError::Kind::kClosed,
        fmt::format("sent a value of {} bytes; expected at most {}", size, kMaxValueBytes));
  }
  const auto bytes = socket.receive(size, deadline);
  return {bytes.begin(), bytes.end()};
}

std::string text_from(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

double seconds_of(milliseconds time) { return std::chrono::duration<double>(time).count(); }

[[noreturn]] void fail_no_store(const StorePlace& place, const std::string& answer) {
  throw RankError(
      fmt::format(
          "{}:{}: what listens there is not the store of this run: its answer begins with "
          "'{}', and does not show the secret. It is another program, or another run: "
          "choose another MASTER_PORT, and give all ranks of a run the same FOVEA_SECRET or "
          "FOVEA_SECRET_FILE",
          place.address, place.port, printable_start(answer.substr(0, 16))),
      ExitCode::kConfig);
}

}  // namespace

StoreClient::StoreClient(StorePlace place, milliseconds timeout,
                         std::shared_ptr<const Interrupt> interrupt)
    : c10d::Store(timeout), place_(std::move(place)), interrupt_(std::move(interrupt)) {
  const auto deadline = ClientClock::now() + timeout;
  for (auto rest = milliseconds(10);; rest = std::min(2 * rest, kLongestRest)) {
    try {
      check_interrupt();
      socket_ = connect(deadline);
      return;
    } catch (const SocketError& error) {
      if (ClientClock::now() + rest < deadline) {
        std::this_thread::sleep_for(rest);
        continue;
      }
      const bool is_silent = error.kind() == SocketError::Kind::kSilent;
      throw RankError(fmt::format(
          "{}:{}: {} within {:g} s (launch.timeout; {}); the ranks meet there: is rank 0 running, "
          "and are MASTER_ADDR and MASTER_PORT right?",
          place_.address, place_.port,
          is_silent ? "somebody listens there, but does not answer" : "nobody answers",
          seconds_of(timeout), error.what()));
    }
  }
}

void StoreClient::check_interrupt() const {
  if (interrupt_ && interrupt_->has_fired()) throw RankError(interrupt_->why());
}

// One attempt at each address of the host.
Socket StoreClient::connect(Deadline deadline) const {
  std::string reason = "no address";
  for (const auto& address : resolve(place_.address, place_.port, deadline, interrupt_.get())) {
    Socket socket;
    try {
      socket =
          connect_to(address, std::min(deadline, ClientClock::now() + kLongestAttempt), interrupt_);
    } catch (const SocketError& error) {
      reason = fmt::format("{}: {}", address.text(), error.what());
      continue;
    }
    greet(socket, deadline);
    return socket;
  }
  throw SocketError(SocketError::Kind::kUnreachable, reason);
}

void StoreClient::greet(const Socket& socket, Deadline deadline) const {
  if (!place_.is_of_torchrun) {
    if (const auto answer = parallel::greet(socket, place_.secret, deadline)) {
      fail_no_store(place_, *answer);
    }
  }
  const auto nonce = static_cast<uint32_t>(random_bytes()[0]) | 0x100;
  socket.send(to_wire({.op = StoreOp::kValidate, .number = kStoreMagic}) +
                  to_wire({.op = StoreOp::kPing, .number = nonce}),
              deadline);
  const auto answer = socket.receive(sizeof nonce, deadline);
  if (answer != wire_number<uint32_t>(nonce)) fail_no_store(place_, answer);
}

c10::intrusive_ptr<StoreClient> StoreClient::another(milliseconds timeout) const {
  return c10::make_intrusive<StoreClient>(place_, timeout, interrupt_);
}

template <class Answer>
auto StoreClient::ask(const StoreRequest& request, Answer answer) {
  const std::lock_guard lock(mutex_);
  const auto deadline = ClientClock::now() + timeout_;
  std::string reason = "is gone";
  check_interrupt();
  if (socket_.file() >= 0) {
    try {
      socket_.send(to_wire(request), deadline);
      return answer(socket_, deadline);
    } catch (const SocketError& error) {
      reason = error.what();
      socket_ = Socket();
      check_interrupt();
    }
  }
  C10_THROW_ERROR(
      DistNetworkError,
      fmt::format("the process in which the ranks meet, at {}:{}, does not answer ({}): "
                  "it was killed, stopped or cut off, or has ended",
                  place_.address, place_.port, reason));
}

void StoreClient::set(const std::string& key, const std::vector<uint8_t>& value) {
  ask({.op = StoreOp::kSet, .keys = {key}, .values = {text_from(value)}},
      [](const Socket&, Deadline) {});
}

std::vector<uint8_t> StoreClient::compareSet(const std::string& key,
                                             const std::vector<uint8_t>& expected,
                                             const std::vector<uint8_t>& desired) {
  return ask({.op = StoreOp::kCompareSet,
              .keys = {key},
              .values = {text_from(expected), text_from(desired)}},
             receive_value);
}

std::vector<uint8_t> StoreClient::get(const std::string& key) {
  wait({key});
  return ask({.op = StoreOp::kGet, .keys = {key}}, receive_value);
}

int64_t StoreClient::add(const std::string& key, int64_t value) {
  return ask({.op = StoreOp::kAdd, .keys = {key}, .number = value}, receive_number<int64_t>);
}

bool StoreClient::deleteKey(const std::string& key) {
  return ask({.op = StoreOp::kDelete, .keys = {key}}, receive_number<int64_t>) == 1;
}

bool StoreClient::check(const std::vector<std::string>& keys) {
  return ask({.op = StoreOp::kCheck, .keys = keys}, receive_number<uint8_t>) == 0;
}

int64_t StoreClient::getNumKeys() {
  return ask({.op = StoreOp::kNumKeys}, receive_number<int64_t>);
}

// Asks again and again: a store that waits itself would have to be waited for without end.
void StoreClient::wait(const std::vector<std::string>& keys, const milliseconds& timeout) {
  const auto deadline = ClientClock::now() + timeout;
  for (auto rest = milliseconds(1); !check(keys); rest = std::min(2 * rest, kLongestRest)) {
    if (ClientClock::now() > deadline) {
      C10_THROW_ERROR(DistStoreError, fmt::format("{} was not told by another rank within {:g} s",
                                                  keys.empty() ? "" : printable_start(keys[0]),
                                                  seconds_of(timeout)));
    }
    std::this_thread::sleep_for(rest);
  }
}

}  // namespace fovea::parallel
