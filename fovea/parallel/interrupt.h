// By which one thread ends what others wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fovea::parallel {

// Fires once, for good: every wait that was given it ends then. Safe to use from any thread.
class Interrupt {
 public:
  // What is called when it fires. Destroyed, it is called no more, and does not run either.
  class Hook {
   public:
    Hook() = default;
    ~Hook();
    Hook(Hook&&) = default;
    Hook& operator=(Hook&&) = delete;

   private:
    friend class Interrupt;
    struct State;
    std::shared_ptr<State> state_;
  };

  Interrupt();  // throws Error: the process has no file left
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Of several reasons the first one counts. Returns when all hooks were called.
  void fire(const std::string& why);
  bool has_fired() const { return has_fired_; }
  std::string why() const;
  // Can be read from once it has fired: to wait for it beside other files.
  int file() const { return file_; }
  // Waits so long at most. -> whether it has fired.
  bool wait(std::chrono::milliseconds patience) const;

  // Called in the thread of fire(); at once where it has fired already.
  [[nodiscard]] Hook on_fire(std::function<void()> call);

 private:
  int file_;
  std::atomic<bool> has_fired_ = false;
  mutable std::mutex mutex_;
  std::string why_;
  std::vector<std::weak_ptr<Hook::State>> hooks_;
};

}  // namespace fovea::parallel
