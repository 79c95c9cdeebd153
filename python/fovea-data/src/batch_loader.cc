#include "python/fovea-data/src/batch_loader.h"

#include <unistd.h>

#include <utility>

#include "fovea/core/error.h"

namespace fovea::python {

HeldBatch::HeldBatch(data::Batch batch, std::shared_ptr<BatchLoader> loader)
    : batch_(std::move(batch)), arrays_(data::arrays_of(batch_)), loader_(std::move(loader)) {}

HeldBatch::~HeldBatch() { loader_->recycle(std::move(batch_)); }

BatchLoader::BatchLoader(data::LoaderSetup setup)
    : setup_(std::move(setup)),
      loader_(std::make_unique<data::Loader>(setup_.dataset, setup_.transforms, setup_.options)),
      order_(loader_->order()) {}

BatchLoader::~BatchLoader() {
  // Of the parent's threads a child has none: to end them would be to wait for ever.
  if (is_of_parent()) static_cast<void>(loader_.release());
}

bool BatchLoader::is_of_parent() const {
  const pid_t user = user_;
  return user != 0 && user != getpid();
}

void BatchLoader::check_open() const {
  if (!is_closed_) return;
  fail<Error>(
      "this loader is closed; batches that it gave stay valid, for more of them make another "
      "Loader");
}

data::Loader& BatchLoader::open_loader() const {
  check_open();
  return *loader_;
}

// Called before any lock is taken: the parent may have held it when the child was forked.
void BatchLoader::check_process() const {
  if (!is_of_parent()) return;
  fail<Error>(
      "this loader is at work in the process that this one was forked from, and its threads are "
      "there; make a Loader in each process, or start processes with the method 'spawn'");
}

std::unique_ptr<HeldBatch> BatchLoader::next() {
  check_process();
  const std::lock_guard lock(next_mutex_);
  data::Loader& loader = open_loader();
  user_ = getpid();
  data::Batch batch = loader.next();
  position_ = batch.position + batch.global_size;
  return std::make_unique<HeldBatch>(std::move(batch), shared_from_this());
}

void BatchLoader::seek(int64_t position) {
  check_process();
  const std::lock_guard lock(next_mutex_);
  if (position == position_) return;  // what is prepared stays
  open_loader().seek(position);
  position_ = position;
}

void BatchLoader::close() {
  is_closed_ = true;
  if (is_of_parent()) return;
  const std::lock_guard lock(next_mutex_);
  std::unique_ptr<data::Loader> ended;
  {
    const std::lock_guard recycle_lock(recycle_mutex_);
    ended = std::move(loader_);
  }
}

void BatchLoader::recycle(data::Batch&& batch) {
  if (is_of_parent()) return;
  const std::lock_guard lock(recycle_mutex_);
  if (loader_) loader_->recycle(std::move(batch));
}

std::vector<data::BadSample> BatchLoader::bad_samples() const {
  check_process();
  const std::lock_guard lock(next_mutex_);
  return open_loader().bad_samples();
}

void BatchLoader::restore_bad_samples(std::vector<data::BadSample> samples) {
  check_process();
  const std::lock_guard lock(next_mutex_);
  open_loader().restore_bad_samples(std::move(samples));
}

// Epochs of a batch schedule or of streams differ in their batches, so the number is searched for.
int64_t BatchLoader::first_batch_of(int64_t epoch) const {
  const auto epoch_of = [&](int64_t batch) { return epoch_at(order_.position_of(batch)); };
  int64_t low = 0, high = 1;  // epoch_of(low) < epoch <= epoch_of(high), but for low = 0
  if (epoch <= 0) return 0;
  while (epoch_of(high) < epoch) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (epoch_of(middle) < epoch ? low : high) = middle;
  }
  return high;
}

int64_t BatchLoader::start_of_epoch(int64_t epoch) const {
  return order_.position_of(first_batch_of(epoch));
}

int64_t BatchLoader::batches_of_epoch(int64_t epoch) const {
  return first_batch_of(epoch + 1) - first_batch_of(epoch);
}

}  // namespace fovea::python
