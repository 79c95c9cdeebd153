// How the parts of an evaluation travel between processes: values exact to the last bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace fovea::train {

// MessagePack, which keeps numbers and bytes as they are, infinities and NaN too.
std::string to_bytes(const nlohmann::json& value);
nlohmann::json json_from_bytes(const std::string& bytes);

// A float64 or int64 tensor on the CPU as its shape and bytes; null where it is undefined.
nlohmann::json json_of(const at::Tensor& tensor);
at::Tensor tensor_of(const nlohmann::json& value);

// Bytes of a file or of pixels.
nlohmann::json json_of_bytes(const std::string& bytes);
std::string bytes_of(const nlohmann::json& value);

// At most `count` of what was kept of samples, in the order of the data set (`index`).
template <class Kept>
std::vector<Kept> spread_evenly(std::vector<Kept> all, size_t count) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Kept& a, const Kept& b) { return a.index < b.index; });
  if (all.size() <= count) return all;
  std::vector<Kept> chosen;
  for (size_t i = 0; i < count; ++i) chosen.push_back(std::move(all[i * all.size() / count]));
  return chosen;
}

}  // namespace fovea::train
