// Which kernel of attention is taken for a shape, by times that the tests make up.
#include "fovea/kernels/attention/attention_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/files/atomic_file.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/gpu_attention.h"
#include "tests/support/close.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using kernels::AttentionKernel;
using kernels::AttentionShape;
using kernels::AttentionTable;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array kFused = {AttentionKernel::kFlash, AttentionKernel::kCudnn,
                               AttentionKernel::kEfficient};
const AttentionShape kShapeOfVit{.dtype = at::kBFloat16,
                                 .batch = 64,
                                 .heads = 12,
                                 .queries = 197,
                                 .keys = 197,
                                 .head_dim = 64,
                                 .has_mask = false,
                                 .has_gradient = true};

// Times by kernel, and which were asked for.
class Times {
 public:
  Times(double flash, double cudnn, double efficient) : seconds_{flash, cudnn, efficient} {}
  AttentionTable::Timer timer() {
    return [this](AttentionKernel kernel) {
      asked.push_back(kernel);
      return seconds_.at(static_cast<size_t>(kernel));
    };
  }
  std::vector<AttentionKernel> asked;

 private:
  std::array<double, 3> seconds_;
};

AttentionShape with_batch(int64_t batch) {
  auto shape = kShapeOfVit;
  shape.batch = batch;
  return shape;
}

TEST(AttentionTableTest, TakesTheFastestAndMeasuresOnce) {
  AttentionTable table;
  Times times(3e-3, 1e-3, 2e-3);
  EXPECT_FALSE(table.find(kShapeOfVit));
  EXPECT_EQ(table.fastest(kShapeOfVit, kFused, times.timer()), AttentionKernel::kCudnn);
  EXPECT_THAT(times.asked, testing::ElementsAreArray(kFused));
  Times others(1e-3, 9e-3, 9e-3);
  EXPECT_EQ(table.fastest(kShapeOfVit, kFused, others.timer()), AttentionKernel::kCudnn);
  EXPECT_TRUE(others.asked.empty());
  EXPECT_EQ(table.find(kShapeOfVit), AttentionKernel::kCudnn);
}

TEST(AttentionTableTest, EachPropertyOfAShapeMakesAnother) {
  AttentionTable table;
  Times times(1, 2, 3);
  table.fastest(kShapeOfVit, kFused, times.timer());
  std::vector<AttentionShape> others(8, kShapeOfVit);
  others[0].dtype = at::kHalf;
  others[1].batch += 1;
  others[2].heads += 1;
  others[3].queries += 1;
  others[4].keys += 1;
  others[5].head_dim += 8;
  others[6].has_mask = true;
  others[7].has_gradient = false;
  for (const auto& shape : others) EXPECT_FALSE(table.find(shape)) << shape.name();
}

TEST(AttentionTableTest, OfEqualOnesTheFirstAndOfNoneThePlainProducts) {
  AttentionTable table;
  Times equal(1, 1, 1), none(kNever, kNever, kNever), one_fails(kNever, 2, 1);
  EXPECT_EQ(table.fastest(with_batch(1), kFused, equal.timer()), AttentionKernel::kFlash);
  EXPECT_EQ(table.fastest(with_batch(2), kFused, none.timer()), AttentionKernel::kMath);
  EXPECT_EQ(table.fastest(with_batch(3), kFused, one_fails.timer()), AttentionKernel::kEfficient);
  Times unused(1, 1, 1);
  EXPECT_EQ(table.fastest(with_batch(4), {}, unused.timer()), AttentionKernel::kMath);
  const std::array single = {AttentionKernel::kEfficient};
  EXPECT_EQ(table.fastest(with_batch(5), single, unused.timer()), AttentionKernel::kEfficient);
  EXPECT_TRUE(unused.asked.empty());
}

TEST(AttentionTableTest, ARunThatGoesOnTakesWhatItMeasuredBefore) {
  const support::TempDir folder;
  const auto path = folder.path() + "/attention.json";
  Times first(3, 1, 2);
  {
    AttentionTable table;
    table.fastest(with_batch(1), kFused, first.timer());  // before: another run's
    table.choices().keep_in(path);
    EXPECT_FALSE(table.find(with_batch(1)));
    table.fastest(kShapeOfVit, kFused, first.timer());
    table.fastest(with_batch(2), kFused, first.timer());
    table.choices().stop_keeping();
    table.fastest(with_batch(3), kFused, first.timer());
  }
  AttentionTable table;
  table.choices().keep_in(path);
  Times changed(1, 2, 3);  // the machine is busy with something else this time
  EXPECT_EQ(table.fastest(kShapeOfVit, kFused, changed.timer()), AttentionKernel::kCudnn);
  EXPECT_EQ(table.find(with_batch(2)), AttentionKernel::kCudnn);
  EXPECT_TRUE(changed.asked.empty());
  EXPECT_FALSE(table.find(with_batch(3)));
}

// The run goes on; what that costs is said.
TEST(AttentionTableTest, AFileThatIsNoTableIsNamedAndMadeAnew) {
  const support::TempDir folder;
  const auto path = folder.path() + "/attention.json";
  for (const auto* text : {"", "[]", "{\"a\": 1}", "{\"a\": \"fastest\"}", "{\"a\": \"flash\""}) {
    write_file_atomic(path, text);
    const LogFile log(folder.file("log"));
    AttentionTable table;
    table.choices().keep_in(path);
    const auto said = read_file(folder.file("log"), 1 << 20);
    EXPECT_THAT(said, testing::HasSubstr("attention.json: ")) << text;
    EXPECT_THAT(said, testing::HasSubstr("no longer bit for bit")) << text;
    std::filesystem::remove(folder.file("log"));
  }
}

TEST(AttentionTableTest, AForwardPassThatRunsAgainIsChosenAsWithGradients) {
  const auto x = support::random({1, 1, 2, 8}, at::kFloat, 1), y = x.clone().requires_grad_();
  EXPECT_FALSE(kernels::gradients_are_to_come(x, x, x, /*runs_again=*/false));
  EXPECT_TRUE(kernels::gradients_are_to_come(x, x, y, /*runs_again=*/false));
  {
    const at::NoGradGuard none;
    EXPECT_FALSE(kernels::gradients_are_to_come(y, y, y, /*runs_again=*/false));
    EXPECT_TRUE(kernels::gradients_are_to_come(x, x, x, /*runs_again=*/true));
  }
}

TEST(PackedGpuAttentionTest, IsForWhatFlashAttentionTakes) {
  using kernels::AttentionChoice;
  EXPECT_TRUE(kernels::takes_packed_attention(at::kBFloat16, 64, AttentionChoice::kAuto));
  EXPECT_TRUE(kernels::takes_packed_attention(at::kHalf, 256, AttentionChoice::kFlash));
  EXPECT_FALSE(kernels::takes_packed_attention(at::kFloat, 64, AttentionChoice::kAuto));
  EXPECT_FALSE(kernels::takes_packed_attention(at::kBFloat16, 60, AttentionChoice::kAuto));
  EXPECT_FALSE(kernels::takes_packed_attention(at::kBFloat16, 264, AttentionChoice::kAuto));
  EXPECT_FALSE(kernels::takes_packed_attention(at::kBFloat16, 64, AttentionChoice::kMath));
}

}  // namespace
}  // namespace fovea
