#include "fovea/elastic/peer_slices.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <nlohmann/json.hpp>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/parallel/greeting.h"
#include "fovea/parallel/store_wire.h"

namespace fovea::elastic {
namespace {

using parallel::Deadline;
using parallel::Socket;
using parallel::SocketError;
using PeerClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGreetingPatience{10};
constexpr std::chrono::hours kLong{24};  // an interrupt ends it before
constexpr size_t kMostVisits = 1024;
constexpr uint64_t kMaxList = uint64_t{256} << 20;  // bytes of the names that one peer wants

nlohmann::json list_of(const std::vector<PeerSlices::Wanted>& wanted) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [slice, dtype] : wanted) {
    list.push_back({slice.part, slice.name, slice.box.offset, slice.box.size});
  }
  return list;
}

// Throws DataError.
std::vector<SliceName> slices_in(const std::string& text) {
  const auto list = parse_json(text, "a list of slices");
  std::vector<SliceName> slices;
  for (const auto& item : JsonValue(list, "a list of slices").items()) {
    const auto fields = item.items();
    if (fields.size() != 4) item.refuse("part, name, offset and size");
    slices.push_back({.part = fields[0].text(),
                      .name = fields[1].text(),
                      .box = {.offset = fields[2].integers(), .size = fields[3].integers()}});
  }
  return slices;
}

void send_values(const Socket& socket, const at::Tensor& values, Deadline deadline) {
  const auto whole = values.contiguous();
  socket.send({static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()}, deadline);
}

}  // namespace

SliceServer::SliceServer(const checkpoint::State& held, const std::string& address,
                         bool is_for_others, std::string secret)
    : held_(held), secret_(std::move(secret)), end_(std::make_shared<parallel::Interrupt>()) {
  for (auto& socket :
       parallel::listen_at(address, 0, is_for_others, PeerClock::now() + kGreetingPatience)) {
    listeners_.push_back(std::move(socket).interrupted_by(end_));
  }
  for (const auto& listener : listeners_) {
    threads_.emplace_back([this, &listener] { run(listener); });
  }
}

SliceServer::~SliceServer() {
  end_->fire("the state was given");
  for (auto& thread : threads_) thread.join();
}

// A thread for each that comes, until all are to end.
void SliceServer::run(const Socket& listener) {
  struct Visit {
    explicit Visit(Socket came) : socket(std::move(came)) {}
    ~Visit() {
      if (thread.joinable()) thread.join();
    }
    Socket socket;
    std::thread thread;
  };
  std::list<Visit> visits;
  try {
    for (;;) {
      auto& visit = visits.emplace_back(listener.accept(PeerClock::now() + kLong));
      visit.thread = std::thread([this, &visit] { serve(visit.socket); });
      if (visits.size() > kMostVisits) visits.pop_front();
    }
  } catch (const std::exception& error) {
    if (!end_->has_fired()) log_warning(fmt::format("state is given no more: {}", error.what()));
  }
}

void SliceServer::serve(const Socket& socket) const {
  try {
    const auto greeting_ends = PeerClock::now() + kGreetingPatience;
    if (!parallel::answer_greeting(socket, secret_, greeting_ends)) {
      fail<DataError>("it does not have the secret of this run");
    }
    uint64_t size = 0;
    socket.receive_into(&size, sizeof size, greeting_ends);
    if (size > kMaxList) fail<DataError>("a list of {} bytes", size);
    const auto deadline = PeerClock::now() + kLong;
    const at::NoGradGuard no_grad;
    for (const auto& slice : slices_in(socket.receive(size, deadline))) {
      send_values(socket, held_.find(slice), deadline);
    }
  } catch (const SocketError&) {  // it has gone, or all is over
  } catch (const std::exception& error) {
    log_warning(fmt::format("another worker asks for state that it cannot have: {}", error.what()));
  }
  ::shutdown(socket.file(), SHUT_RDWR);
}

PeerSlices::PeerSlices(const PeerPlace& place, std::vector<Wanted> wanted, Deadline deadline,
                       std::shared_ptr<const parallel::Interrupt> interrupt)
    : place_(place), wanted_(std::move(wanted)), deadline_(deadline) {
  try {
    const auto addresses =
        parallel::resolve(place_.address, place_.port, deadline_, interrupt.get());
    FOVEA_CHECK(!addresses.empty(), "{} has no address", place_.address);
    socket_ = parallel::connect_to(addresses.front(), deadline_, std::move(interrupt));
    const auto greeting_ends = std::min(deadline_, PeerClock::now() + kGreetingPatience);
    if (parallel::greet(socket_, place_.secret, greeting_ends)) {
      fail("it does not have the secret of this run");
    }
    socket_.send(parallel::wire_text(json_text(list_of(wanted_))), deadline_);
  } catch (const Error& error) {
    fail("worker {} at {}:{}: its part of the state cannot be had: {}", place_.worker,
         place_.address, place_.port, error.what());
  }
}

at::Tensor PeerSlices::read(const std::string& key) {
  FOVEA_CHECK(next_ < wanted_.size() && wanted_[next_].slice.key() == key,
              "{} is read out of its turn", key);
  const auto& [slice, dtype] = wanted_[next_++];
  const auto values = at::empty(slice.box.size, at::TensorOptions().dtype(dtype));
  try {
    socket_.receive_into(values.mutable_data_ptr(), values.nbytes(), deadline_);
  } catch (const SocketError& error) {
    fail("worker {} at {}:{}: '{}' of the state did not come: {}", place_.worker, place_.address,
         place_.port, slice.name, error.what());
  }
  bytes_read_ += values.nbytes();
  return values;
}

}  // namespace fovea::elastic
