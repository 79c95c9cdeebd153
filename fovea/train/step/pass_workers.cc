#include "fovea/train/step/pass_workers.h"

#include <ATen/Parallel.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/own_threads.h"
#include "fovea/kernels/device.h"

namespace fovea::train {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

PassWorkers::PassWorkers(int64_t number, c10::Device device) : device_(device) {
  if (device_.is_cuda()) {
    const c10::impl::VirtualGuardImpl guard(device_.type());
    if (!device_.has_index()) device_ = guard.getDevice();
    for (int64_t i = 0; i < number; ++i) {
      streams_.push_back(guard.getStreamFromGlobalPool(device_));
    }
  }
  try {
    for (int64_t i = 0; i < number; ++i) threads_.emplace_back([this, i] { live(i); });
  } catch (...) {  // there are no more threads to be had
    stop();
    throw;
  }
}

PassWorkers::~PassWorkers() { stop(); }

void PassWorkers::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void PassWorkers::run(int64_t at_once, int64_t count, const Body& compute, const Body& add) {
  FOVEA_CHECK(0 < at_once && at_once <= number(), "{} passes at once with {} workers", at_once,
              number());
  Run run{.at_once = at_once,
          .count = count,
          .compute = compute,
          .add = add,
          .threads_each = std::max(1, at::get_num_threads() / static_cast<int>(at_once)),
          .modes = {},
          .context = nn::forward_context(),
          .begun = {},
          .added = {},
          .first_failed = count,
          .failure = {}};
  if (device_.is_cuda()) {
    run.begun.emplace(device_.type());
    run.added.emplace(device_.type());
    run.begun->record(current_stream(device_));
  }
  {
    std::unique_lock lock(mutex_);
    run_ = &run;
    num_runs_ += 1;
    num_busy_ = at_once;
    wake_.notify_all();
    idle_.wait(lock, [&] { return num_busy_ == 0; });
    run_ = nullptr;
  }
  if (run.failure) {
    // What workers enqueued before it is on streams that nobody waits for.
    kernels::synchronize(device_);
    std::rethrow_exception(run.failure);
  }
  if (device_.is_cuda() && count > 0) run.added->block(current_stream(device_));
}

void PassWorkers::live(int64_t worker) {
  std::unique_lock lock(mutex_);
  for (int64_t seen = 0;;) {
    wake_.wait(lock, [&] { return is_stopping_ || num_runs_ > seen; });
    if (is_stopping_) return;
    seen = num_runs_;
    if (run_ == nullptr || worker >= run_->at_once) continue;
    Run& run = *run_;
    lock.unlock();
    take_part(run, worker);
    lock.lock();
    if (--num_busy_ == 0) idle_.notify_all();
  }
}

void PassWorkers::take_part(Run& run, int64_t worker) {
  try {
    const at::ThreadLocalStateGuard modes(run.modes);
    const nn::ContextScope context(run.context);
    kernels::cpu::use_own_threads(run.threads_each);
    if (!device_.is_cuda()) return take_passes(run, {});
    const auto& stream = streams_[static_cast<size_t>(worker)];
    const c10::StreamGuard on_stream(stream);
    run.begun->block(stream);
    take_passes(run, stream);
  } catch (...) {  // before any pass
    fail_at(run, 0);
  }
}

void PassWorkers::take_passes(Run& run, const std::optional<c10::Stream>& stream) {
  while (const auto pass = begin_pass(run)) {
    try {
      run.compute(*pass);
      if (!await_turn(run, *pass)) return;
      if (stream && *pass > 0) run.added->block(*stream);
      run.add(*pass);
      if (stream) run.added->record(*stream);
    } catch (...) {
      return fail_at(run, *pass);
    }
    end_turn(run);
  }
}

// Nothing where no more are to be begun. Passes are begun in order, so that all before one are
// added, or fail themselves.
std::optional<int64_t> PassWorkers::begin_pass(Run& run) {
  const std::lock_guard lock(mutex_);
  if (run.next >= std::min(run.count, run.first_failed)) return {};
  return run.next++;
}

// False: one before it has failed.
bool PassWorkers::await_turn(Run& run, int64_t pass) {
  std::unique_lock lock(mutex_);
  turn_.wait(lock, [&] { return run.num_added == pass || run.first_failed < pass; });
  return run.first_failed >= pass;
}

void PassWorkers::end_turn(Run& run) {
  const std::lock_guard lock(mutex_);
  run.num_added += 1;
  turn_.notify_all();
}

void PassWorkers::fail_at(Run& run, int64_t pass) {
  const std::lock_guard lock(mutex_);
  if (pass < run.first_failed) {
    run.first_failed = pass;
    run.failure = std::current_exception();
  }
  turn_.notify_all();
}

}  // namespace fovea::train
