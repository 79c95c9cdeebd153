// A connection to the store in which ranks meet.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "fovea/parallel/sockets.h"
#include "fovea/parallel/store_wire.h"

namespace fovea::parallel {

struct StorePlace {
  std::string address;
  int64_t port = 0;
  bool is_of_torchrun = false;  // torchrun's, which knows no secret
  std::string secret{};         // empty: the store lets in whoever comes
};

// Everything ends at a deadline, `timeout` after it has begun. After a failure the connection is of
// no use. Safe to call from several threads, one after another.
class StoreClient final : public c10d::Store {
 public:
  // Tries until the store answers. Throws RankError that says what was found there.
  // interrupt: ends all that it waits for, for good; may be null.
  StoreClient(StorePlace place, std::chrono::milliseconds timeout,
              std::shared_ptr<const Interrupt> interrupt = nullptr);

  // With a connection, and a timeout, of its own.
  c10::intrusive_ptr<StoreClient> another(std::chrono::milliseconds timeout) const;

  // Those of c10d, whose exceptions they throw: c10::DistNetworkError where the store is gone or
  // silent, c10::DistStoreError where a name has no value in time.
  c10::intrusive_ptr<c10d::Store> clone() override { return another(timeout_); }
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;
  using c10d::Store::set, c10d::Store::compareSet;

 private:
  void check_interrupt() const;
  Socket connect(Deadline deadline) const;
  void greet(const Socket& socket, Deadline deadline) const;
  // Sends a request, then reads its answer.
  template <class Answer>
  auto ask(const StoreRequest& request, Answer answer);

  StorePlace place_;
  std::shared_ptr<const Interrupt> interrupt_;
  std::mutex mutex_;
  Socket socket_;  // none: after a failure
};

}  // namespace fovea::parallel
