#include "fovea/parallel/launch_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea::parallel {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment from(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string launch_refusal(const Variables& variables) {
  try {
    launch_from(from(variables));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was refused";
}

const Variables kTorchrun = {{"RANK", "5"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"LOCAL_WORLD_SIZE", "4"},
                             {"MASTER_ADDR", "node1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "job"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

const Variables kSlurm = {{"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_PROCID", "6"},
                          {"SLURM_STEP_NUM_TASKS", "7"},
                          {"SLURM_LOCALID", "2"},
                          {"SLURM_NODEID", "1"},
                          {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                          {"SLURM_STEP_NODELIST", "gpu[003-004]"}};

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-1@1"}};

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

TEST(LaunchEnvTest, ReadsTorchrun) {
  const auto launch = launch_from(from(kTorchrun));
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.world_size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.address, "node1");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_EQ(launch.run_id, "job/2");
  EXPECT_TRUE(launch.is_store_hosted);
  EXPECT_TRUE(launch.is_store_of_torchrun);
  EXPECT_FALSE(launch.has_store());
  EXPECT_FALSE(launch.is_one_machine());
  EXPECT_EQ(launch.secret, "");
}

TEST(LaunchEnvTest, ReadsSlurm) {
  const auto launch = launch_from(from(kSlurm));
  EXPECT_EQ(launch.launcher, "srun");
  EXPECT_EQ(launch.rank, 6);
  EXPECT_EQ(launch.world_size, 7);
  EXPECT_EQ(launch.local_rank, 2);
  EXPECT_EQ(launch.local_size, 3);
  EXPECT_EQ(launch.address, "gpu003");
  EXPECT_FALSE(launch.is_store_hosted);
  EXPECT_TRUE(launch.binds_cores);
  EXPECT_GE(launch.port, 10000);
  EXPECT_LT(launch.port, 30000);
  // All ranks of a step find the same port, and another step another one.
  EXPECT_EQ(launch_from(from(kSlurm + Variables{{"SLURM_PROCID", "0"}})).port, launch.port);
  EXPECT_NE(launch_from(from(kSlurm + Variables{{"SLURM_STEP_ID", "1"}})).port, launch.port);
}

TEST(LaunchEnvTest, ReadsOpenMpi) {
  const auto launch = launch_from(from(kOpenMpi));
  EXPECT_EQ(launch.launcher, "mpirun");
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.world_size, 2);
  EXPECT_EQ(launch.address, "127.0.0.1");
  const auto given = kOpenMpi + Variables{{"MASTER_ADDR", "h"}, {"MASTER_PORT", "1234"}};
  EXPECT_EQ(launch_from(from(given)).address, "h");
  EXPECT_EQ(launch_from(from(given)).port, 1234);
}

TEST(LaunchEnvTest, OneProcessIsNoGroup) {
  const std::vector<Variables> alone = {
      {},
      // The shell of a batch job: it has no step.
      {{"SLURM_JOB_ID", "1"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},
      {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
      {{"RANK", "0"}, {"WORLD_SIZE", "1"}},
  };
  for (const auto& variables : alone) {
    const auto launch = launch_from(from(variables));
    EXPECT_EQ(launch.world_size, 1);
    EXPECT_EQ(launch.rank, 0);
    EXPECT_EQ(launch.launcher, "");
  }
}

TEST(LaunchEnvTest, TorchrunWithinSrunIsTheInnerOne) {
  const auto launch = launch_from(from(kSlurm + kTorchrun));
  EXPECT_EQ(launch.launcher, "torchrun");
  EXPECT_EQ(launch.rank, 5);
}

TEST(LaunchEnvTest, NamesAllThatIsWrong) {
  EXPECT_THAT(launch_refusal({{"WORLD_SIZE", "4"}, {"LOCAL_RANK", "x"}}),
              AllOf(HasSubstr("RANK is not"), HasSubstr("LOCAL_RANK='x' is no number"),
                    HasSubstr("MASTER_ADDR is not"), HasSubstr("MASTER_PORT is not")));
  EXPECT_THAT(launch_refusal(kTorchrun + Variables{{"RANK", "8"}}),
              HasSubstr("rank 8 of 8; expected 0 to 7"));
  EXPECT_THAT(launch_refusal(kTorchrun + Variables{{"MASTER_PORT", "99999"}}),
              HasSubstr("MASTER_PORT=99999; expected 1 to 65535"));
  EXPECT_THAT(launch_refusal(kOpenMpi + Variables{{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
              HasSubstr("mpirun -x MASTER_ADDR="));
}

TEST(LaunchEnvTest, RefusesLaunchersThatContradict) {
  const Variables exported = {
      {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  EXPECT_THAT(launch_refusal(kOpenMpi + exported),
              HasSubstr("RANK=0 and WORLD_SIZE=4 contradict mpirun, which started this process as "
                        "rank 1 of 2"));
  EXPECT_THAT(launch_refusal(kSlurm + exported), HasSubstr("contradict srun"));
  const auto agreed = kSlurm + exported + Variables{{"RANK", "6"}, {"WORLD_SIZE", "7"}};
  EXPECT_EQ(launch_from(from(agreed)).rank, 6);
}

TEST(LaunchEnvTest, ReadsTheSecretOfARun) {
  const std::string secret = "0123456789abcdef";
  const support::TempDir folder;
  const auto path = folder.file("secret");
  std::ofstream(path) << secret << " \n";
  fs::permissions(path, fs::perms::owner_read);
  const auto given = launch_from(from(kSlurm + Variables{{"FOVEA_SECRET", secret}}));
  EXPECT_EQ(given.secret, secret);
  EXPECT_EQ(launch_from(from(kSlurm + Variables{{"FOVEA_SECRET_FILE", path}})).secret, secret);
  // Fovea's own launcher has the store, and hands its secret on.
  const auto own = launch_from(
      from(kTorchrun + Variables{{"FOVEA_STORE", "launcher"}, {"FOVEA_SECRET", secret}}));
  EXPECT_TRUE(own.is_store_hosted);
  EXPECT_FALSE(own.is_store_of_torchrun);
  // One process needs none, and looks at none.
  EXPECT_EQ(launch_from(from({{"FOVEA_SECRET", "short"}})).world_size, 1);

  EXPECT_THAT(launch_refusal(kSlurm + Variables{{"FOVEA_SECRET", "short!"}}),
              AllOf(HasSubstr("FOVEA_SECRET has 6 characters; expected at least 16"),
                    ::testing::Not(HasSubstr("short!"))));
  EXPECT_THAT(
      launch_refusal(kSlurm + Variables{{"FOVEA_SECRET", secret}, {"FOVEA_SECRET_FILE", path}}),
      HasSubstr("are both set"));
  EXPECT_THAT(launch_refusal(kSlurm + Variables{{"FOVEA_SECRET_FILE", path + "2"}}),
              HasSubstr("secret2: No such file"));
  EXPECT_THAT(launch_refusal(kSlurm + Variables{{"FOVEA_SECRET_FILE", folder.path()}}),
              HasSubstr("expected a file"));
  fs::permissions(path, fs::perms::group_read, fs::perm_options::add);
  EXPECT_THAT(launch_refusal(kSlurm + Variables{{"FOVEA_SECRET_FILE", path}}),
              HasSubstr("chmod 600"));
}

TEST(LaunchEnvTest, ReadsWhatCarriesTensors) {
  EXPECT_EQ(launch_from(from(kSlurm)).collectives, "");
  EXPECT_EQ(launch_from(from(kSlurm + Variables{{"FOVEA_COLLECTIVES", "gloo"}})).collectives,
            "gloo");
  EXPECT_THAT(launch_refusal(kSlurm + Variables{{"FOVEA_COLLECTIVES", "shm"}}),
              HasSubstr("FOVEA_COLLECTIVES='shm'; expected shared_memory or gloo"));
}

TEST(LaunchEnvTest, ReadsSlurmsShortForms) {
  const std::map<std::string, std::string> hosts = {
      {"node7", "node7"},  {"a,b", "a"},       {"gpu[003-010,12],cpu1", "gpu003"},
      {"n[12,14]", "n12"}, {"n[5]-x", "n5-x"}, {"cpu1,gpu[1-2]", "cpu1"}};
  for (const auto& [list, first] : hosts) EXPECT_EQ(first_host(list), first) << list;
  EXPECT_EQ(tasks_of_node("4(x2),3", 0), 4);
  EXPECT_EQ(tasks_of_node("4(x2),3", 1), 4);
  EXPECT_EQ(tasks_of_node("4(x2),3", 2), 3);
  EXPECT_EQ(tasks_of_node("4(x2),3", 3), 0);
  EXPECT_EQ(tasks_of_node("", 0), 0);
}

TEST(LaunchEnvTest, SharesCores) {
  Launch launch;
  launch.local_size = 4;
  EXPECT_EQ(threads_per_rank(launch, 64, 64), 16);
  EXPECT_EQ(threads_per_rank(launch, 8, 64), 2);  // a container's share
  EXPECT_EQ(threads_per_rank(launch, 2, 2), 1);
  launch.binds_cores = true;
  EXPECT_EQ(threads_per_rank(launch, 16, 64), 16);  // its own cores already
  EXPECT_EQ(threads_per_rank(launch, 64, 64), 16);
}

}  // namespace
}  // namespace fovea::parallel
