#include "fovea/elastic/control/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "fovea/elastic/control/records.h"
#include "tests/support/temp_dir.h"

namespace fovea::elastic {
namespace {

using ::testing::HasSubstr;

// Two workers over two epochs of 8 samples, in batches of 4; a third one takes over at step 3.
class AuditTest : public ::testing::Test {
 protected:
  static std::string line(int64_t generation, int64_t step, std::vector<int64_t> ids) {
    return to_json(SampleLine{.generation = generation,
                              .step = step,
                              .position = 4 * step,
                              .ids = std::move(ids)}) +
           "\n";
  }
  void SetUp() override {
    a = line(1, 0, {0, 5}) + line(1, 1, {2, 3}) + line(1, 2, {1, 0}) + line(1, 3, {5, 6});
    b = line(1, 0, {1, 4}) + line(1, 1, {6, 7}) + line(1, 2, {2, 3});
    c = line(2, 3, {4, 5, 6, 7});
    events = to_json(Event{.generation = 1, .reason = "start"}) + "\n" +
             to_json(Event{.generation = 2, .reason = "death", .steps_lost = 1}) + "\n";
  }
  Audit audit(std::optional<int64_t> num_samples = {}) {
    folder.write("samples/a.jsonl", a);
    folder.write("samples/b.jsonl", b);
    folder.write("samples/c.jsonl", c);
    folder.write("events.jsonl", events);
    return audit_run(folder.path(), num_samples);
  }
  std::string refusal(std::optional<int64_t> num_samples = {}) {
    try {
      audit(num_samples);
    } catch (const DataError& error) {
      return error.what();
    }
    return "read";
  }
  support::TempDir folder;
  std::string a, b, c, events;
};

TEST_F(AuditTest, AWholeRunIsGood) {
  const auto result = audit();
  EXPECT_TRUE(result.is_ok());
  EXPECT_EQ(result.num_samples, 8);
  EXPECT_EQ(result.num_generations, 2);
  EXPECT_EQ(result.steps_lost, 1);
  ASSERT_EQ(result.epochs.size(), 2u);
  for (const auto& epoch : result.epochs) {
    EXPECT_EQ(epoch.samples, 8);
    EXPECT_TRUE(epoch.is_whole);
  }
}

TEST_F(AuditTest, ADoctoredFileIsNot) {
  b = line(1, 0, {1, 4}) + line(1, 1, {6, 6}) + line(1, 2, {2, 3});
  const auto result = audit();
  EXPECT_FALSE(result.is_ok());
  EXPECT_EQ(result.epochs[0].missing, 1);
  EXPECT_EQ(result.epochs[0].doubled, 1);
  EXPECT_EQ(result.epochs[1].missing, 0);
}

TEST_F(AuditTest, ALineThatIsGoneIsMissed) {
  b = line(1, 1, {6, 7}) + line(1, 2, {2, 3});
  EXPECT_EQ(audit().epochs[0].missing, 2);
}

TEST_F(AuditTest, TheLastStepIsHeldAgainstTheOneBefore) {
  c = line(1, 3, {4, 7});  // the same generation, to its end
  EXPECT_TRUE(audit().is_ok());
  c = line(1, 3, {4});
  EXPECT_EQ(audit().epochs[1].missing, 1);
}

TEST_F(AuditTest, ARunThatIsNotAtItsEndMissesNothing) {
  a = line(1, 0, {0, 5}) + line(1, 1, {2, 3}) + line(1, 2, {1, 0});
  c = "";
  const auto result = audit();
  EXPECT_TRUE(result.is_ok());
  EXPECT_EQ(result.epochs[1].samples, 4);
  EXPECT_FALSE(result.epochs[1].is_whole);
}

// A restart from a checkpoint before: what was done behind it is void, also steps that come no
// more.
TEST_F(AuditTest, WhatWasDoneAgainCountsOnce) {
  c = line(2, 1, {2, 3, 6, 7});
  const auto result = audit();
  EXPECT_TRUE(result.is_ok());
  ASSERT_EQ(result.epochs.size(), 1u);
  EXPECT_EQ(result.epochs[0].samples, 8);
}

TEST_F(AuditTest, ALineThatAKillCutShortEndsItsFile) {
  a += "{\"generation\":1,\"st";
  EXPECT_TRUE(audit().is_ok());
}

TEST_F(AuditTest, TheNumberOfSamplesMayBeGiven) {
  EXPECT_EQ(audit(9).epochs[0].missing, 1);
  EXPECT_THAT(refusal(7), HasSubstr("has the sample 7; expected 0 to 6"));
}

TEST_F(AuditTest, DamagedFilesAreNamed) {
  EXPECT_THROW(audit_run(folder.path() + "/none", {}), DataError);
  EXPECT_THROW(audit_run(folder.path(), {}), DataError);
  const auto good = a;
  a = good + "nonsense\n";
  EXPECT_THAT(refusal(), HasSubstr("a.jsonl:5: not JSON"));
  a = good + line(1, 9, {-1});
  EXPECT_THAT(refusal(), HasSubstr("the sample -1"));
  a = good + line(1, 9, {4000000000});
  EXPECT_THAT(refusal(), HasSubstr("--num-samples"));
  a = good + line(2, int64_t{1} << 60, {1});
  EXPECT_THAT(refusal(), HasSubstr("damaged"));
  a = good + to_json(SampleLine{.generation = 1, .step = 3, .position = 13}) + "\n";
  EXPECT_THAT(refusal(), HasSubstr("step 3 of generation 1 begins at 13, and at 12"));
  a = good;
  events = "{}\n";
  EXPECT_THAT(refusal(), HasSubstr("events.jsonl:1: no \"generation\""));
  // A file of a terabyte without a line feed is not read into memory.
  std::filesystem::resize_file(folder.file("samples/a.jsonl"), uintmax_t{1} << 40);
  try {
    audit_run(folder.path(), {});
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a.jsonl:5: a line of more than 64 MiB"));
  }
}

}  // namespace
}  // namespace fovea::elastic
