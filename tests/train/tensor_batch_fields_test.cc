// for_each_tensor of a TensorBatch.
#include <c10/core/UndefinedTensorImpl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "fovea/train/tasks/task.h"

namespace fovea::train {
namespace {

// Where tensors lie in a batch, in words: an undefined one points to one place.
std::set<size_t> words_of_tensors(const TensorBatch& batch) {
  std::vector<const void*> words(sizeof batch / sizeof(void*));
  std::memcpy(static_cast<void*>(words.data()), static_cast<const void*>(&batch), sizeof batch);
  std::set<size_t> found;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == c10::UndefinedTensorImpl::singleton()) found.insert(i);
  }
  return found;
}

TEST(TensorBatchFieldsTest, EveryTensorIsVisitedOnce) {
  static_assert(sizeof(at::Tensor) == sizeof(void*));
  TensorBatch batch;
  const auto expected = words_of_tensors(batch);
  EXPECT_GT(expected.size(), 20u);
  std::set<size_t> visited;
  std::set<std::string> names;
  for_each_tensor(batch, [&](const char* name, const at::Tensor& x) {
    const auto* begin = reinterpret_cast<const char*>(&batch);
    const auto offset = static_cast<size_t>(reinterpret_cast<const char*>(&x) - begin);
    EXPECT_TRUE(visited.insert(offset / sizeof(void*)).second) << name << " is visited twice";
    EXPECT_TRUE(names.insert(name).second) << "two are called " << name;
  });
  EXPECT_EQ(visited, expected);
}

}  // namespace
}  // namespace fovea::train
