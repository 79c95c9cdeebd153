#include "fovea/hub/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea::hub {
namespace {

constexpr const char* kVariables[] = {
    "HF_ENDPOINT", "HF_HUB_CACHE",   "HUGGINGFACE_HUB_CACHE",         "HF_HOME",
    "HF_TOKEN",    "HF_TOKEN_PATH",  "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HUGGING_FACE_HUB_TOKEN",
    "HOME",        "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",          "XDG_CACHE_HOME"};

HubSettings settings_with(const std::map<std::string, std::string>& variables) {
  std::map<std::string, std::string> before;
  for (const auto* name : kVariables) {
    if (const char* value = std::getenv(name)) before[name] = value;
    unsetenv(name);
  }
  setenv("HOME", "/home/u", 1);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  struct Restore {
    const std::map<std::string, std::string>& before;
    ~Restore() {
      for (const auto* name : kVariables) unsetenv(name);
      for (const auto& [name, value] : before) setenv(name.c_str(), value.c_str(), 1);
    }
  } restore{before};
  return hub_settings_of_environment();
}

TEST(HubSettingsTest, PlacesFollowTheVariables) {
  EXPECT_EQ(settings_with({}).cache, "/home/u/.cache/huggingface/hub");
  EXPECT_EQ(settings_with({{"XDG_CACHE_HOME", "/x"}}).cache, "/x/huggingface/hub");
  EXPECT_EQ(settings_with({{"HF_HOME", "~/h"}}).cache, "/home/u/h/hub");
  EXPECT_EQ(settings_with({{"HF_HOME", "/h"}, {"HF_HUB_CACHE", "/c"}}).cache, "/c");
  EXPECT_EQ(settings_with({}).endpoint, "https://huggingface.co");
  EXPECT_EQ(settings_with({{"HF_ENDPOINT", "https://mirror/"}}).endpoint, "https://mirror");
  EXPECT_THROW(settings_with({{"HF_ENDPOINT", "mirror"}}), ConfigError);
  EXPECT_FALSE(settings_with({{"HF_HUB_OFFLINE", "0"}}).is_offline);
  EXPECT_TRUE(settings_with({{"HF_HUB_OFFLINE", "1"}}).is_offline);
  EXPECT_TRUE(settings_with({{"TRANSFORMERS_OFFLINE", "Yes"}}).is_offline);
}

TEST(HubSettingsTest, TheTokenIsTheVariablesOrTheFiles) {
  const support::TempDir folder;
  folder.write("token", std::string("hf_file\n"));
  folder.write("other", std::string(" hf_other "));
  EXPECT_EQ(settings_with({}).token, "");
  EXPECT_EQ(settings_with({{"HF_HOME", folder.path()}}).token, "hf_file");
  EXPECT_EQ(settings_with({{"HF_HOME", folder.path()}, {"HF_TOKEN", "hf_a\n"}}).token, "hf_a");
  EXPECT_EQ(settings_with({{"HF_TOKEN_PATH", folder.file("other")}}).token, "hf_other");
  EXPECT_EQ(
      settings_with({{"HF_HOME", folder.path()}, {"HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}}).token,
      "");
  EXPECT_THROW(settings_with({{"HF_TOKEN", "two words"}}), ConfigError);
}

}  // namespace
}  // namespace fovea::hub
