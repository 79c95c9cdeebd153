#include "fovea/serve/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/inference/predictor.h"
#include "fovea/inference/ready_input.h"
#include "fovea/serve/model_interface.h"
#include "fovea/serve/served_model.h"
#include "fovea/train/recipe/inference.h"
#include "tests/serve/served.h"

namespace fovea::serve {
namespace {

using namespace testing;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Step-0 weights, which a warning says, and nothing else.
void load_quietly(ModelRepository& models, const std::string& name) {
  ::testing::internal::CaptureStderr();
  try {
    models.load(name);
  } catch (...) {
    ::testing::internal::GetCapturedStderr();
    throw;
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr("not warmed up")));
}

TEST(ModelRepositoryTest, NamesAreTheirOwn) {
  const Folder folder;
  ModelRepository models({});
  models.add({.name = "a", .target = "runs/a"});
  EXPECT_THAT(message_of([&] { models.add({.name = "a", .target = "runs/b"}); }),
              HasSubstr("two models are called 'a': runs/a and runs/b"));
  for (const char* name : {"", "a/b", ".a", "a b", "\xc3\xa9"}) {
    EXPECT_THAT(message_of([&] { models.add({.name = name, .target = "x"}); }),
                HasSubstr("expected letters, digits"));
  }
}

TEST(ModelRepositoryTest, AModelThatIsNotThereSaysWhy) {
  const Folder folder;
  ModelRepository models({});
  models.add({.name = "a", .target = folder.file("absent")});
  EXPECT_FALSE(models.is_ready());
  EXPECT_THAT(message_of([&] { models.find("a"); }), HasSubstr("not ready: not loaded yet"));
  EXPECT_THAT(message_of([&] { models.load("a"); }), HasSubstr("absent"));
  EXPECT_FALSE(models.is_ready());
  const auto status = models.models().front();
  EXPECT_EQ(status.state, "UNAVAILABLE");
  EXPECT_EQ(status.version, "");
  EXPECT_THAT(status.reason, HasSubstr("absent"));
}

TEST(ModelRepositoryTest, AModelBeyondTheBudgetIsNotLoaded) {
  const Folder folder;
  auto config = train::testing::tiny_config(folder);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.embed_dim = 128;  // 1.5 MiB
  config.model = {vit};
  ModelRepository models({.memory_budget = 2});
  models.add(source_of(folder, config, "a"));
  models.add(source_of(folder, config, "b"));
  load_quietly(models, "a");
  EXPECT_THAT(
      message_of([&] { load_quietly(models, "b"); }),
      HasSubstr(
          "its weights take 1.5 MiB, and those that are loaded 1.5; expected at most 2 together"));
  models.unload("a");
  load_quietly(models, "b");
  int64_t bytes = 0;
  const auto model = train::load_inference(folder.file("b.yaml"), {.device = "cpu"}).model;
  for (const auto& weight : model->parameters()) bytes += static_cast<int64_t>(weight.nbytes());
  EXPECT_EQ(models.find("b")->weight_bytes(), bytes);
}

// Every model there is, asked about a file as bytes.
class EveryServedModelTest : public ::testing::TestWithParam<train::testing::ModelCase> {
 protected:
  EveryServedModelTest() : source_(source_of(folder_, GetParam().config(folder_), "m")) {
    models_.add(source_);
  }

  // An image or a volume of the model's data.
  std::string write_input() const {
    std::vector<std::string> volumes;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path())) {
      const auto path = file.path().string();
      if (path.ends_with(".nii.gz") && path.find("/labels/") == path.npos) volumes.push_back(path);
    }
    if (!volumes.empty()) return *std::min_element(volumes.begin(), volumes.end());
    const auto png = png_bytes(20);
    return folder_.write("image.png", std::vector<uint8_t>(png.begin(), png.end()));
  }

  // Names of the outputs, those that come by themselves, or those on request.
  std::vector<std::string> outputs(bool are_on_request) {
    const auto config = json_of(ask(api_, request_to("/v2/models/m/config")));
    std::vector<std::string> names;
    for (const auto& output : config["output"]) names.push_back(output["name"]);
    if (!are_on_request) return names;
    names.clear();
    std::istringstream text(
        config["parameters"]["outputs_on_request"]["string_value"].get<std::string>());
    for (std::string name; std::getline(text, name, ',');) names.push_back(name);
    return names;
  }

  HttpResponse ask_for(const std::string& path, const std::vector<std::string>& names) {
    json others = {{"parameters", {{"binary_data_output", true}}}};
    for (const auto& name : names) others["outputs"].push_back({{"name", name}});
    return ask(api_, images_request("m", {read_file(path, 1 << 20)}, others));
  }

  Folder folder_;
  ModelSource source_;
  ModelRepository models_{{.max_batch_size = 2}};
  InferenceApi api_{models_, {}};
};

std::string dense_bytes(const at::Tensor& tensor) {
  const auto dense = tensor.contiguous();
  return {static_cast<const char*>(dense.const_data_ptr()), dense.nbytes()};
}

// What the predictor says of the same file; each question is asked once.
class Expected {
 public:
  Expected(const inference::Predictor& predictor, std::vector<inference::Input> inputs)
      : predictor_(predictor), inputs_(std::move(inputs)) {}

  // The bytes of an output; empty: there is no such answer.
  std::string bytes(const std::string& output) {
    try {
      if (output == kScores) return dense_bytes(classes().scores);
      if (output == kMask) return number_bytes(mask().classes.classes);
      if (output == kVoxels) return number_bytes(mask().voxels);
      if (output == kFeatures) return dense_bytes(features());
      if (output == kLabels) {
        const auto label = inference::best(classes().scores, 1)[0].label;
        return bytes_tensor({predictor_.loaded().class_name(label)});
      }
      if (output == kAttention) predictor_.attention(inputs_)[0].get();
      return "PNG";
    } catch (const Error&) {
      return {};
    }
  }

 private:
  const inference::Classes& classes() {
    if (!classes_) classes_ = predictor_.classes(inputs_)[0].get();
    return *classes_;
  }
  const at::Tensor& features() {
    if (!features_) features_ = predictor_.features(inputs_)[0].get();
    return *features_;
  }
  const inference::Mask& mask() {
    if (!mask_) mask_ = predictor_.masks(inputs_)[0].get();
    return *mask_;
  }

  const inference::Predictor& predictor_;
  std::vector<inference::Input> inputs_;
  std::optional<inference::Classes> classes_;
  std::optional<at::Tensor> features_;
  std::optional<inference::Mask> mask_;
};

TEST_P(EveryServedModelTest, AnswersAsThePredictorDoes) {
  if (std::string_view(GetParam().name).starts_with("diffusion")) {
    EXPECT_THAT(message_of([&] { load_quietly(models_, "m"); }),
                HasSubstr("`fovea predict RUN --samples"));
    return;
  }
  load_quietly(models_, "m");
  const auto& predictor = models_.find("m")->predictor();
  const auto path = write_input();
  const auto inputs = inference::file_inputs({path});
  Expected expected(predictor, inputs);
  const auto response = ask_for(path, outputs(false));
  ASSERT_EQ(response.status, 200) << error_of(response);
  for (const auto& name : outputs(false)) {
    EXPECT_EQ(binary_of(response, name), expected.bytes(name)) << name;
  }
  for (const auto& name : outputs(true)) {
    const auto one = ask_for(path, {name});
    const auto bytes = expected.bytes(name);
    EXPECT_EQ(one.status, bytes.empty() ? 400 : 200) << name << ": " << error_of(one);
    if (bytes == "PNG") {
      EXPECT_THAT(binary_of(one, name).substr(4), StartsWith("\x89PNG")) << name;
    } else if (!bytes.empty()) {
      EXPECT_EQ(binary_of(one, name), bytes) << name;
    }
  }
  // Once it is prepared nothing of the file is read any more.
  const auto ready = predictor.prepared(inputs)[0].get();
  EXPECT_GT(inference::ready_bytes(ready), 0);
  std::filesystem::remove(path);
  Expected of_ready(predictor, {ready});
  for (const auto& name : outputs(false)) EXPECT_EQ(of_ready.bytes(name), expected.bytes(name));
}

INSTANTIATE_TEST_SUITE_P(Models, EveryServedModelTest,
                         ::testing::ValuesIn(train::testing::model_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace fovea::serve
