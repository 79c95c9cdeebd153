// What the progress line of a training run says.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/core/progress_line.h"

namespace fovea::train {

struct ProgressStatus {
  int64_t epoch = 0, num_epochs = 0;  // epoch counts from 1
  int64_t step = 0, num_steps = 0;
  double loss = 0;
  double accuracy = -1;  // percent; below 0: not shown
  double images_per_second = 0;
  double data_wait = 0;  // share of the time spent waiting on data
  int64_t memory_bytes = 0;
  double seconds_left = 0;
  std::string remark = {};  // "others use 1.7 of 2 cores"; empty: there is none
};

// "epoch 2/5  step 310/1170  loss 0.4120  acc 85.1 %  1,450 img/s  data 1 %  812 MiB  2m10s left"
std::string format_progress(const ProgressStatus& status);

// "2m10s", "1h03m", "42s".
std::string format_duration(double seconds);

}  // namespace fovea::train
