// `fovea elastic` as a user meets it, as far as it needs no etcd; with one: tests/elastic/control.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"
#include "tests/apps/program.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

constexpr int kConfig = static_cast<int>(ExitCode::kConfig);
constexpr int kBadAudit = static_cast<int>(ExitCode::kData);
constexpr int kBadCommand = static_cast<int>(ExitCode::kUsage);

TEST(ElasticCommandTest, AnAuditSaysWhichEpochIsNotWhole) {
  const support::TempDir run;
  const std::string line = R"({"generation":1,"step":0,"position":0,"ids":[0,1,2]})";
  run.write("samples/a.jsonl", line + "\n");
  run.write("events.jsonl", std::string());
  const auto good = run_fovea("elastic audit " + run.path() + " --json");
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_THAT(good.output,
              HasSubstr(R"("ok":true,"epochs":[{"epoch":0,"samples":3,"missing":0,"doubled":0}])"));
  run.write("samples/b.jsonl", line + "\n");
  const auto doubled = run_fovea("elastic audit " + run.path());
  EXPECT_EQ(doubled.exit_code, kBadAudit);
  EXPECT_THAT(doubled.output,
              AllOf(HasSubstr("epoch 0: 3 samples, 0 missing, 3 doubled"), HasSubstr("NOT ok")));
  run.write("samples/b.jsonl", std::string("{}\n"));
  const auto damaged = run_fovea("elastic audit " + run.path());
  EXPECT_EQ(damaged.exit_code, kBadAudit);
  EXPECT_THAT(damaged.output, HasSubstr("b.jsonl:1: no \"generation\""));
}

TEST(ElasticCommandTest, AnEtcdThatIsNotThereIsSaid) {
  const auto nowhere = run_fovea("elastic status", "FOVEA_ETCD=");
  EXPECT_EQ(nowhere.exit_code, kConfig);
  EXPECT_THAT(nowhere.output, HasSubstr("--etcd URL,... or set FOVEA_ETCD"));
  const auto gone = run_fovea("elastic stop --etcd http://127.0.0.1:1 --run vit");
  EXPECT_EQ(gone.exit_code, kConfig);
  EXPECT_THAT(gone.output, AllOf(HasSubstr("http://127.0.0.1:1"), HasSubstr("start it")));
}

TEST(ElasticCommandTest, OneThingAtATimeIsAskedFor) {
  const auto both = run_fovea("elastic scale --etcd http://127.0.0.1:1 --workers 2 --add a");
  EXPECT_EQ(both.exit_code, kBadCommand);
  EXPECT_THAT(both.output, HasSubstr("give one of --workers N"));
}

}  // namespace
}  // namespace fovea
