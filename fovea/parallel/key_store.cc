#include "fovea/parallel/key_store.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::shared_ptr<StoreServer> open_server(const KeyStoreOptions& options) {
  if (!options.is_server) return nullptr;
  const auto& place = options.place;
  if (options.listeners != nullptr) {
    std::vector<Socket> listeners;
    for (const auto& socket : *options.listeners) listeners.push_back(socket.duplicate());
    return std::make_shared<StoreServer>(std::move(listeners), place.secret);
  }
  try {
    return std::make_shared<StoreServer>(
        listen_at(place.address, place.port, options.is_for_others,
                  std::chrono::steady_clock::now() + options.timeout),
        place.secret);
  } catch (const SocketError& error) {
    throw RankError(
        fmt::format("{}:{}: cannot be opened ({}); the ranks meet there: are "
                    "MASTER_ADDR and MASTER_PORT right?",
                    place.address, place.port, error.what()));
  }
}

// What c10d throws of a store is of the other process that has it.
template <class Body>
auto asked(Body body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw RankError(text.substr(0, text.find('\n')));
  }
}

}  // namespace

KeyStore::KeyStore(const KeyStoreOptions& options)
    : server_(open_server(options)),
      connection_(
          c10::make_intrusive<StoreClient>(options.place, options.timeout, options.interrupt)),
      store_(connection_) {}

KeyStore::KeyStore(c10::intrusive_ptr<StoreClient> connection, std::string prefix)
    : connection_(std::move(connection)), prefix_(std::move(prefix)), store_(connection_) {
  if (!prefix_.empty()) store_ = c10::make_intrusive<c10d::PrefixStore>(prefix_, connection_);
}

std::unique_ptr<KeyStore> KeyStore::clone(std::chrono::milliseconds timeout) const {
  return std::unique_ptr<KeyStore>(new KeyStore(connection_->another(timeout), prefix_));
}

KeyStore KeyStore::under(const std::string& prefix) const {
  return {connection_, prefix_.empty() ? prefix : prefix_ + "/" + prefix};
}

void KeyStore::set(const std::string& key, const std::string& value) {
  asked([&] { store_->set(key, bytes_of(value)); });
}

bool KeyStore::set_first(const std::string& key, const std::string& value) {
  return add(key + "/claimed", 1) == 1 ? (set(key, value), true) : false;
}

std::optional<std::string> KeyStore::find(const std::string& key, size_t max_bytes) const {
  return asked([&]() -> std::optional<std::string> {
    if (!store_->check({key})) return {};
    const auto bytes = store_->get(key);
    return std::string(bytes.begin(),
                       bytes.begin() + static_cast<ptrdiff_t>(std::min(bytes.size(), max_bytes)));
  });
}

int64_t KeyStore::add(const std::string& key, int64_t amount) {
  return asked([&] { return store_->add(key, amount); });
}

std::vector<std::string> KeyStore::wait_for(const std::vector<std::string>& keys,
                                            std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto missing = keys;
  for (auto pause = std::chrono::milliseconds(2);;
       pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    asked([&] {
      std::erase_if(missing, [&](const std::string& key) { return store_->check({key}); });
    });
    if (missing.empty() || std::chrono::steady_clock::now() >= deadline) return missing;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace fovea::parallel
