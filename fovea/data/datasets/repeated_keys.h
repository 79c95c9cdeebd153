// Two samples with one key: most often a list that was joined with itself, or an archive written
// twice, so that some samples count double and may stand in training and in validation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

namespace fovea::data {

struct RepeatedKey {
  int64_t first = 0, second = 0;  // samples with one key; `second` is the lowest that repeats one
  int64_t count = 0;              // samples that repeat the key of an earlier one
};

// key(i), 0 <= i < size: must stay valid until the next call. Takes 16 bytes a sample meanwhile.
std::optional<RepeatedKey> find_repeated_key(int64_t size,
                                             const std::function<std::string_view(int64_t)>& key);

}  // namespace fovea::data
