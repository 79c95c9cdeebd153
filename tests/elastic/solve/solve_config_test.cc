#include "fovea/elastic/solve/solve_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal_of_config(const std::string& text) {
  try {
    parse_solve_config(text, "c.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "read";
}

TEST(SolveConfigTest, IsJsonYamlOrASectionOfARecipe) {
  for (const std::string text : {"{\"similarity_target\": 0.5, \"resource_alloc_unit\": \"2gpu\"}",
                                 "similarity_target: 0.5\nresource_alloc_unit: 2gpu\n",
                                 "model: {name: vit}\nelastic:\n  min_workers: 2\n  "
                                 "similarity_target: 0.5\n  resource_alloc_unit: 2gpu\n"}) {
    const auto config = parse_solve_config(text, "c");
    EXPECT_EQ(config.similarity_target, 0.5);
    EXPECT_EQ(config.alloc_unit(), 2);
    EXPECT_EQ(config.metric, "similarity");
  }
  const auto alike = parse_solve_config("elastic: {homo_servers: [[a, b], [c]]}", "c");
  EXPECT_EQ(alike.homo_servers.size(), 2U);
}

TEST(SolveConfigTest, FaultsHaveALineAndAKey) {
  EXPECT_THAT(
      refusal_of_config("{\n\"batch_size_lower_bound\": 64,\n\"batch_size_upper_bound\": 32}"),
      AllOf(HasSubstr("c.json:2"), HasSubstr("batch_size_lower_bound"), HasSubstr("32")));
  EXPECT_THAT(refusal_of_config("{\n\"similarity_target\": 3}"),
              AllOf(HasSubstr("c.json:2"), HasSubstr("similarity_target")));
  EXPECT_THAT(refusal_of_config("{\n\n\"similarity_targt\": 0.3}"),
              AllOf(HasSubstr("c.json:3"), HasSubstr("similarity_target")));
  EXPECT_THAT(refusal_of_config("{\"resource_alloc_unit\": \"some\"}"), HasSubstr("4gpu"));
  EXPECT_THAT(refusal_of_config("{\"metric\": \"loss\"}"), HasSubstr("noise"));
  EXPECT_THAT(refusal_of_config("[1, 2]"), HasSubstr("a list"));
}

TEST(ClusterTest, HostsComeInTheOrderOfTheirNames) {
  const std::string text = R"({
 "b": {"type": "T", "number": 2, "intra_network_bandwidth": 1, "inter_network_bandwidth": 1},
 "a": {"type": "T", "tfplos": 28.26, "number": 4, "intra_network_bandwidth": 1,
       "inter_network_bandwidth": 1}})";
  const auto all = parse_cluster(text, "c.json", {});
  ASSERT_EQ(all.hosts.size(), 2U);
  EXPECT_EQ(all.hosts[0].name, "b");
  EXPECT_EQ(all.num_devices(), 6);
  EXPECT_NEAR(all.hosts[1].config.price(), 6.12, 1e-9);
  EXPECT_EQ(parse_cluster(text, "c.json", {"a"}).hosts.size(), 1U);
  EXPECT_THROW(parse_cluster(text, "c.json", {"c"}), ConfigError);
  EXPECT_THROW(parse_cluster(text, "c.json", {"a", "a"}), ConfigError);
  EXPECT_THROW(parse_cluster("{\"a\": {\"type\": \"T\", \"number\": 0}}", "c.json", {}),
               ConfigError);
}

}  // namespace
}  // namespace fovea::elastic
