#include "fovea/parallel/key_store.h"

#include <c10/util/Exception.h>

#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "fovea/parallel/rank_error.h"

namespace fovea::parallel {
namespace {

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

c10d::TCPStoreOptions store_options(const KeyStoreOptions& options) {
  c10d::TCPStoreOptions result;
  result.port = static_cast<uint16_t>(options.port);
  result.isServer = options.is_server;
  result.waitWorkers = false;
  result.timeout = options.timeout;
  return result;
}

[[noreturn]] void fail_to_open(const KeyStoreOptions& options, const std::string& what) {
  if (options.is_server && what.find("EADDRINUSE") != std::string::npos) {
    throw RankError(fmt::format("port {} of this machine is in use by another program; choose "
                                "another one with MASTER_PORT",
                                options.port),
                    ExitCode::kConfig);
  }
  throw RankError(fmt::format(
      "{}:{}: {} within {:.0f} s; the ranks meet there: is rank 0 running, and are "
      "MASTER_ADDR and MASTER_PORT right? ({})",
      options.address, options.port, options.is_server ? "cannot be opened" : "nobody answers",
      std::chrono::duration<double>(options.timeout).count(), what.substr(0, what.find('\n'))));
}

}  // namespace

KeyStore::KeyStore(const KeyStoreOptions& options) {
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(options.address, store_options(options));
    port_ = store->getPort();
    store_ = std::move(store);
  } catch (const c10::Error& error) {
    fail_to_open(options, error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail_to_open(options, error.what());
  }
}

std::unique_ptr<KeyStore> KeyStore::clone() const {
  return std::unique_ptr<KeyStore>(new KeyStore(store_->clone(), port_));
}

KeyStore KeyStore::under(const std::string& prefix) const {
  return {c10::make_intrusive<c10d::PrefixStore>(prefix, store_), port_};
}

void KeyStore::set(const std::string& key, const std::string& value) {
  store_->set(key, bytes_of(value));
}

bool KeyStore::set_first(const std::string& key, const std::string& value) {
  return store_->add(key + "/claimed", 1) == 1 ? (set(key, value), true) : false;
}

std::optional<std::string> KeyStore::find(const std::string& key) const {
  if (!store_->check({key})) return {};
  return text_of(store_->get(key));
}

int64_t KeyStore::add(const std::string& key, int64_t amount) { return store_->add(key, amount); }

std::vector<std::string> KeyStore::wait_for(const std::vector<std::string>& keys,
                                            std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  auto missing = keys;
  for (auto pause = std::chrono::milliseconds(2);;
       pause = std::min(2 * pause, std::chrono::milliseconds(200))) {
    std::erase_if(missing, [&](const std::string& key) { return store_->check({key}); });
    if (missing.empty() || std::chrono::steady_clock::now() >= deadline) return missing;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace fovea::parallel
