#include "fovea/hub/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fovea/core/files.h"
#include "fovea/hub/hub_error.h"
#include "tests/hub/fake_hub.h"
#include "tests/support/temp_dir.h"

namespace fovea::hub {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string some_bytes(size_t count) {
  std::string bytes(count, 0);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 131 >> 3);
  return bytes;
}

class RepositoryTest : public testing::Test {
 protected:
  RepositoryTest() {
    hub_.small["config.json"] = "{}";
    hub_.large["model.safetensors"] = some_bytes(100000);
  }

  Repository repository(const std::string& name = "org/vit@main") {
    return Repository(parse_hub_name("hf-hub:" + name), hub_.settings(folder_.path()));
  }
  std::string content(const std::string& path) { return read_file(path, 1 << 20); }
  fs::path blobs() { return fs::path(folder_.path()) / "models--org--vit" / "blobs"; }
  std::vector<std::string> names_of_blobs() {
    std::vector<std::string> names;
    if (!fs::exists(blobs())) return names;
    for (const auto& entry : fs::directory_iterator(blobs()))
      names.push_back(entry.path().filename());
    return names;
  }
  template <class E, class Call>
  std::string message_of(const Call& call) {
    try {
      call();
    } catch (const E& error) {
      return error.what();
    }
    ADD_FAILURE() << "expected an error";
    return {};
  }
  HubError::Kind refusal_of(const std::string& name) {
    try {
      repository(name).find("config.json");
    } catch (const HubError& error) {
      return error.kind();
    }
    throw std::runtime_error("expected a HubError");
  }
  // What is fetched with these deliveries is the file, whole.
  void expect_fetched(std::vector<Delivery> deliveries, size_t num_requests) {
    hub_.deliveries = std::move(deliveries);
    const auto before = hub_.requests_of_content().size();
    auto opened = repository();
    EXPECT_EQ(content(*opened.find("model.safetensors")), hub_.large["model.safetensors"]);
    EXPECT_EQ(hub_.requests_of_content().size() - before, num_requests);
    EXPECT_THAT(names_of_blobs(), Each(Not(HasSubstr("incomplete"))));
  }
  void forget() { fs::remove_all(fs::path(folder_.path()) / "models--org--vit"); }

  support::TempDir folder_;
  FakeHub hub_;
};

TEST_F(RepositoryTest, KeepsFilesAsHuggingfaceHubDoes) {
  auto opened = repository();
  const auto config = *opened.find("config.json");
  const auto weights = *opened.find("model.safetensors");
  const auto folder = folder_.path() + "/models--org--vit";
  EXPECT_EQ(config, folder + "/snapshots/" + kFakeCommit + "/config.json");
  EXPECT_EQ(content(config), "{}");
  EXPECT_EQ(content(weights), hub_.large["model.safetensors"]);
  EXPECT_EQ(content(folder + "/refs/main"), kFakeCommit);
  EXPECT_EQ(fs::read_symlink(config).string(), "../../blobs/ab122");
  EXPECT_TRUE(fs::exists(folder_.path() + "/.locks/models--org--vit/ab122.lock"));
  EXPECT_EQ(opened.find("other.bin"), std::nullopt);
}

TEST_F(RepositoryTest, FetchesOnceAndAsksWhetherTheBranchHasMoved) {
  repository().find("model.safetensors");
  const auto fetched = hub_.requests_of_content().size();
  auto again = repository();
  again.find("model.safetensors");
  EXPECT_EQ(hub_.requests_of_content().size(), fetched);
  const auto asked = hub_.requests().size();
  again.find("model.safetensors");  // the commit is known by now
  repository("org/vit@" + kFakeCommit).find("model.safetensors");
  EXPECT_EQ(hub_.requests().size(), asked);
}

TEST_F(RepositoryTest, FilesInFoldersAreLinkedToo) {
  hub_.small["sub/folder/a.json"] = "[1]";
  const auto path = *repository("org/vit@v1").find("sub/folder/a.json");
  EXPECT_EQ(content(path), "[1]");
  EXPECT_EQ(fs::read_symlink(path).string(), "../../../../blobs/ab123");
}

TEST_F(RepositoryTest, ARenamedRepositoryIsFound) {
  EXPECT_EQ(content(*repository("org/old-name").find("model.safetensors")),
            hub_.large["model.safetensors"]);
}

TEST_F(RepositoryTest, GoesOnWhereAConnectionWasCut) {
  expect_fetched({Delivery::kCut, Delivery::kCut, Delivery::kUnavailable}, 4);
  EXPECT_THAT(hub_.requests_of_content().back(), HasSubstr("Range: bytes=75000-"));
}

TEST_F(RepositoryTest, StartsAgainWhereAllOfItComesInsteadOfAPart) {
  expect_fetched({Delivery::kCut, Delivery::kAll}, 2);
}

TEST_F(RepositoryTest, AsksAnewWhereAnAddressHasRunOut) { expect_fetched({Delivery::kExpired}, 2); }

TEST_F(RepositoryTest, GoesOnWithWhatAnotherProcessLeft) {
  hub_.deliveries = {Delivery::kCut,         Delivery::kUnavailable, Delivery::kUnavailable,
                     Delivery::kUnavailable, Delivery::kUnavailable, Delivery::kUnavailable};
  EXPECT_THAT(message_of<HubError>([&] { repository().find("model.safetensors"); }),
              AllOf(HasSubstr("HTTP 503"), HasSubstr("50000 bytes, is kept")));
  EXPECT_THAT(names_of_blobs(), SizeIs(1));
  expect_fetched({}, 1);
  EXPECT_THAT(hub_.requests_of_content().back(), HasSubstr("Range: bytes=50000-"));
}

TEST_F(RepositoryTest, WhatIsDamagedOnTheDiskIsFetchedAgain) {
  expect_fetched({}, 1);
  const auto name = names_of_blobs().at(0);
  for (const auto& left :
       {std::string(30, 'x'), std::string(100000, 'x'), std::string(100001, 'x')}) {
    forget();
    fs::create_directories(blobs());
    std::ofstream(blobs() / (name + ".incomplete")) << left;
    // Of too many bytes it is clear at once; of all of them when they are summed.
    expect_fetched({}, left.size() == 30 ? 2 : 1);
  }
}

TEST_F(RepositoryTest, NothingStaysOfWhatIsNotWhatWasPromised) {
  const auto expect_refused = [&](std::vector<Delivery> deliveries, const char* reason) {
    hub_.deliveries = std::move(deliveries);
    EXPECT_THAT(message_of<DataError>([&] { repository().find("model.safetensors"); }),
                HasSubstr(reason));
    EXPECT_THAT(names_of_blobs(), IsEmpty());
  };
  expect_refused({Delivery::kMore}, "more than the 100000 bytes");
  expect_refused({Delivery::kOtherBytes}, "its SHA-256 is not");
  expect_refused({Delivery::kCut, Delivery::kOtherRange}, "bytes 49999-");
}

TEST_F(RepositoryTest, AnEtagNamesNoFileElsewhere) {
  hub_.etag = "../../../x";
  EXPECT_THAT(message_of<DataError>([&] { repository().find("config.json"); }),
              HasSubstr("../../../x"));
  EXPECT_THAT(message_of<DataError>([&] { repository().find("model.safetensors"); }),
              HasSubstr("found the etag"));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(RepositoryTest, TheTokenGoesToTheHubAlone) {
  hub_.token = "hf_secret";
  auto settings = hub_.settings(folder_.path());
  EXPECT_EQ(refusal_of("org/vit"), HubError::Kind::kGated);
  settings.token = "hf_secret";
  Repository opened(parse_hub_name("hf-hub:org/vit"), settings);
  opened.find("config.json");
  opened.find("model.safetensors");
  EXPECT_THAT(hub_.requests().back(), HasSubstr("Authorization: Bearer hf_secret\r\n"));
  EXPECT_THAT(hub_.requests_of_content(), AllOf(SizeIs(1), Each(Not(HasSubstr("uthorization")))));
}

TEST_F(RepositoryTest, RefusalsAreToldApart) {
  using Kind = HubError::Kind;
  EXPECT_EQ(refusal_of("org/nobody"), Kind::kNoRepository);
  EXPECT_EQ(refusal_of("org/vit@nowhere"), Kind::kNoRevision);
  hub_.error_code = "GatedRepo";
  hub_.error_status = 403;
  EXPECT_EQ(refusal_of("org/vit"), Kind::kGated);
  hub_.error_code = "Other";
  EXPECT_EQ(refusal_of("org/vit"), Kind::kDenied);
  hub_.error_status = 503;
  EXPECT_EQ(refusal_of("org/vit"), Kind::kNoAnswer);
  EXPECT_THAT(hub_.requests(), SizeIs(2 + 2 + 4));  // the last one four times
}

TEST_F(RepositoryTest, WhatWasFetchedIsTakenWhereNobodyAnswers) {
  repository().find("config.json");
  hub_.error_code = "Busy";
  hub_.error_status = 503;
  auto opened = repository();
  EXPECT_EQ(content(*opened.find("config.json")), "{}");
  EXPECT_EQ(opened.find("model.safetensors"), std::nullopt);
  EXPECT_THAT(message_of<HubError>([&] { find_weights(opened); }),
              AllOf(HasSubstr("HTTP 503"), HasSubstr("not among what was fetched before")));
}

TEST_F(RepositoryTest, OfflineNobodyIsAsked) {
  repository().find("model.safetensors");
  const auto asked = hub_.requests().size();
  auto settings = hub_.settings(folder_.path());
  settings.is_offline = true;
  Repository opened(parse_hub_name("hf-hub:org/vit"), settings);
  EXPECT_EQ(content(find_weights(opened)), hub_.large["model.safetensors"]);
  Repository other(parse_hub_name("hf-hub:org/other"), settings);
  EXPECT_THAT(message_of<HubError>([&] { other.find("config.json"); }),
              AllOf(HasSubstr("HF_HUB_OFFLINE is set"), HasSubstr("HF_HUB_CACHE")));
  EXPECT_EQ(hub_.requests().size(), asked);
}

TEST_F(RepositoryTest, WeightsAreOneFileOfTwoNames) {
  auto opened = repository();
  EXPECT_TRUE(find_weights(opened).ends_with("/model.safetensors"));
  hub_.large["pytorch_model.bin"] = hub_.large["model.safetensors"];
  hub_.large.erase("model.safetensors");
  forget();
  auto pickled = repository();
  EXPECT_TRUE(find_weights(pickled).ends_with("/pytorch_model.bin"));
  hub_.large.clear();
  forget();
  auto empty = repository();
  EXPECT_THAT(message_of<DataError>([&] { find_weights(empty); }), HasSubstr("no weights in it"));
  hub_.small["model.safetensors.index.json"] = "{}";
  EXPECT_THAT(message_of<DataError>([&] { find_weights(empty); }), HasSubstr("several files"));
}

TEST_F(RepositoryTest, AFullPathIsAnErrorThatSaysSo) {
  std::ofstream(folder_.path() + "/models--org--vit") << "a file where the folder should be";
  EXPECT_THROW(repository().find("config.json"), Error);
}

}  // namespace
}  // namespace fovea::hub
