#include "fovea/elastic/control/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "fovea/elastic/control/proposal.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Plan some_plan() {
  Plan plan;
  plan.generation = 3;
  plan.reason = "death";
  plan.members = {
      {.worker = "a", .created = 7, .rank = 0, .share = {0, 4, 8}, .host = "h", .device = "cpu"},
      {.worker = "b", .created = 9, .rank = 1, .share = {4, 8, 8}, .host = "h", .device = "cpu"}};
  plan.mesh.dp_replicate = 2;
  plan.global_batch = 250;
  plan.batch_request = "r";
  plan.slots = 8;
  plan.store = {"10.0.0.1", 4000, "secret"};
  plan.from_step = 12;
  plan.requests = {"x"};
  auto before = plan;
  before.generation = 2;
  plan.before = {before};
  plan.then.emplace_back().workers = 2;
  return plan;
}

template <class Record>
std::string refusal_of(const std::string& text) {
  try {
    from_json<Record>(text, "/fovea/r/plan");
  } catch (const DataError& error) {
    return error.what();
  }
  return "read";
}

TEST(RecordsTest, ComeBackAsTheyWere) {
  const auto plan = some_plan();
  EXPECT_EQ(from_json<Plan>(to_json(plan), "key"), plan);
  auto other = some_plan();
  other.reason = "shares";
  other.shares = {{.measured_ms = 97, .expected_ms = 49, .profile_ms = 32}};
  other.measured = {{.worker = "b", .rows = 32, .own_ms = 96, .comm_ms = 1, .steps = 32}};
  EXPECT_EQ(from_json<Plan>(to_json(other), "key"), other);
  Proposal proposal{.generation = 3, .take = {"c"}, .reason = "take c"};
  proposal.is_worth_it = true;
  EXPECT_EQ(from_json<Proposal>(to_json(proposal), "key"), proposal);
  WorkerRecord worker{.host = "h\"", .process = 5, .device = "cuda:0"};
  worker.identity.data = "d";
  EXPECT_EQ(from_json<WorkerRecord>(to_json(worker), "key"), worker);
  const Commit commit{
      .generation = 1, .step = 2, .position = 3, .checkpoint = "c", .sum = "s", .is_done = true};
  EXPECT_EQ(from_json<Commit>(to_json(commit), "key"), commit);
}

TEST(RecordsTest, SharesAreWholeRows) {
  EXPECT_EQ((ShareRecord{0, 3, 8}.rows(250)), 93);
  EXPECT_EQ((ShareRecord{3, 8, 8}.rows(250)), 157);
}

TEST(RecordsTest, KeysThatAreUnknownOrMissingAreNamed) {
  const auto good = to_json(Commit{});
  auto missing = good, other = good;
  missing.replace(missing.find("\"step\":0,"), 9, "");
  EXPECT_THAT(refusal_of<Commit>(missing), HasSubstr("/fovea/r/plan: no \"step\""));
  other.replace(other.find("\"sum\""), 5, "\"sums\"");
  EXPECT_THAT(refusal_of<Commit>(other), HasSubstr("no \"sum\""));
  auto more = good;
  more.insert(1, "\"setp\":1,");
  EXPECT_THAT(refusal_of<Commit>(more),
              AllOf(HasSubstr("unknown key \"setp\""), HasSubstr("did you mean")));
  auto twice = good;
  twice.insert(1, "\"step\":1,");
  EXPECT_THAT(refusal_of<Commit>(twice), HasSubstr("twice"));
  EXPECT_THAT(refusal_of<Commit>("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal_of<Commit>(""), HasSubstr("not JSON"));
}

TEST(RecordsTest, APlanThatIsNoneIsRefused) {
  auto plan = some_plan();
  plan.reason = "because";
  EXPECT_THAT(refusal_of<Plan>(to_json(plan)), HasSubstr("reason 'because'"));
  plan = some_plan();
  plan.members[1].rank = 5;
  EXPECT_THAT(refusal_of<Plan>(to_json(plan)), HasSubstr("member 1 has rank 5"));
  plan = some_plan();
  plan.members[0].share = {4, 4, 8};
  EXPECT_THAT(refusal_of<Plan>(to_json(plan)), HasSubstr("share 4 to 4 of 8"));
  plan = some_plan();
  plan.mesh.tp = 0;
  EXPECT_THAT(refusal_of<Plan>(to_json(plan)), HasSubstr("axis of 0"));
}

TEST(RecordsTest, RunsSayWhatDiffers) {
  RunRecord here{.dir = "/runs/a", .recipe = "optim:\n  lr: 1\n", .identity = {"r1", "d", "v"}};
  auto there = here;
  EXPECT_EQ(difference(here, there), "");
  there.recipe = "optim:\n  lr: 2\n";
  there.identity.recipe = "r2";
  EXPECT_THAT(difference(here, there), AllOf(HasSubstr("'  lr: 1' here"), Not(HasSubstr("optim"))));
  there = here;
  there.dir = "/runs/b";
  there.identity.version = "v2";
  EXPECT_THAT(difference(here, there), AllOf(HasSubstr("/runs/a"), HasSubstr("/runs/b"),
                                             HasSubstr("version: 'v' here, 'v2'")));
  there.identity.data = "";
  EXPECT_THAT(difference(here.identity, there.identity), Not(HasSubstr("data")));
}

TEST(RunKeysTest, ANameIsAPartOfAKey) {
  EXPECT_EQ(RunKeys("vit-1").worker("w"), "/fovea/vit-1/workers/w");
  for (const std::string name : {"", "a/b", "a b", "../x", "\n"})
    EXPECT_THROW(RunKeys{name}, ConfigError) << name;
}

}  // namespace
}  // namespace fovea::elastic
