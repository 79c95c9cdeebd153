// Whether what a process has made becomes the run's, where another one may have taken its place.
#pragma once

namespace fovea::checkpoint {

enum class Publishing {
  kYes,
  kNo,
  kUnknown,  // at the moment: it waits
};

}  // namespace fovea::checkpoint
