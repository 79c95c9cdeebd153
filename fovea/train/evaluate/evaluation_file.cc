#include "fovea/train/evaluate/evaluation_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/base64.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/files/atomic_file.h"

namespace fovea::train {
namespace {

using nlohmann::json;

constexpr int64_t kMaxClasses = 1'000'000;
constexpr size_t kMaxMetrics = 10'000;
constexpr uint64_t kMaxEvaluationBytes = uint64_t{256} << 20;  // pictures stand in it
constexpr int kEvaluationDepth = 16;

json to_json(const SamplePrediction& sample) {
  auto scores = json::array();
  for (const auto& [label, score] : sample.scores) {
    scores.push_back({{"label", label}, {"score", score}});
  }
  json out = {{"index", sample.index}, {"description", sample.description},
              {"label", sample.label}, {"predicted", sample.predicted},
              {"loss", sample.loss},   {"scores", std::move(scores)}};
  if (!sample.image_png.empty()) out["image_png"] = base64_encode(sample.image_png);
  return out;
}

json to_json(const std::vector<SamplePrediction>& samples) {
  auto out = json::array();
  for (const auto& sample : samples) out.push_back(to_json(sample));
  return out;
}

// The values of a list; none where there is no such list.
std::vector<JsonValue> list_of(const JsonValue& value, const char* key) {
  const auto list = value.find(key);
  return list ? list->items() : std::vector<JsonValue>();
}

std::string picture_of(const JsonValue& value) {
  const auto image = value.find("image_png");
  if (!image) return {};
  try {
    return base64_decode(image->text());
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", image->where(), error.what());
  }
}

SamplePrediction sample_from(const JsonValue& value) {
  SamplePrediction sample;
  value.read("index", sample.index);
  value.read("description", sample.description);
  value.read("label", sample.label);
  value.read("predicted", sample.predicted);
  value.read("loss", sample.loss);
  for (const auto& one : list_of(value, "scores")) {
    ClassScore score;
    one.read("label", score.label);
    one.read("score", score.score);
    sample.scores.push_back(score);
  }
  sample.image_png = picture_of(value);
  return sample;
}

std::vector<SamplePrediction> samples_from(const JsonValue& value, const char* key) {
  std::vector<SamplePrediction> samples;
  for (const auto& one : list_of(value, key)) samples.push_back(sample_from(one));
  return samples;
}

std::vector<ConfusionCount> confusion_from(const JsonValue& value, int64_t num_classes) {
  std::vector<ConfusionCount> out;
  for (const auto& one : list_of(value, "confusion")) {
    const auto numbers = one.integers();
    const auto is_class = [&](int64_t label) { return label >= 0 && label < num_classes; };
    if (numbers.size() != 3 || !is_class(numbers[0]) || !is_class(numbers[1]) || numbers[2] < 0) {
      one.refuse(
          fmt::format("[label, predicted, count], labels below num_classes={}", num_classes));
    }
    out.push_back({numbers[0], numbers[1], numbers[2]});
  }
  return out;
}

json to_json(const std::vector<EvaluationPicture>& pictures) {
  auto out = json::array();
  for (const auto& one : pictures) {
    out.push_back({{"title", one.title},
                   {"caption", one.caption},
                   {"image_png", base64_encode(one.image_png)}});
  }
  return out;
}

std::vector<EvaluationPicture> pictures_from(const JsonValue& value) {
  std::vector<EvaluationPicture> pictures;
  for (const auto& one : list_of(value, "pictures")) {
    EvaluationPicture picture;
    one.read("title", picture.title);
    one.read("caption", picture.caption);
    picture.image_png = picture_of(one);
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

std::map<std::string, double> metrics_from(const JsonValue& value) {
  std::map<std::string, double> metrics;
  const auto found = value.find("metrics");
  if (!found) return metrics;
  if (found->raw().size() > kMaxMetrics) {
    found->refuse(fmt::format("at most {} numbers", kMaxMetrics));
  }
  for (const auto& [name, number] : found->members()) metrics[name] = number.number();
  return metrics;
}

EvaluationFile evaluation_from(const JsonValue& value) {
  EvaluationFile out;
  out.metrics = metrics_from(value);
  value.read("num_samples", out.num_samples);
  value.read("num_left_out", out.num_left_out);
  value.read("step", out.step);
  value.read("epoch", out.epoch);
  value.read("dataset", out.dataset);
  value.read("num_classes", out.num_classes);
  if (out.num_classes < 0 || out.num_classes > kMaxClasses) {
    value.at("num_classes").refuse(fmt::format("0 to {}", kMaxClasses));
  }
  value.read("class_names", out.class_names);
  out.confusion = confusion_from(value, out.num_classes);
  out.samples = samples_from(value, "samples");
  out.mistakes = samples_from(value, "mistakes");
  out.pictures = pictures_from(value);
  return out;
}

}  // namespace

double EvaluationFile::metric(const std::string& name) const {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

std::string class_name(const std::vector<std::string>& names, int64_t label) {
  if (label < 0) return "no label";
  const auto place = static_cast<size_t>(label);
  return place < names.size() ? names[place] : fmt::format("class {}", label);
}

std::string evaluation_to_json(const EvaluationFile& evaluation) {
  auto confusion = json::array();
  for (const auto& [label, predicted, count] : evaluation.confusion) {
    confusion.push_back({label, predicted, count});
  }
  const json out = {{"metrics", evaluation.metrics},
                    {"num_samples", evaluation.num_samples},
                    {"num_left_out", evaluation.num_left_out},
                    {"step", evaluation.step},
                    {"epoch", evaluation.epoch},
                    {"dataset", evaluation.dataset},
                    {"num_classes", evaluation.num_classes},
                    {"class_names", evaluation.class_names},
                    {"confusion", std::move(confusion)},
                    {"samples", to_json(evaluation.samples)},
                    {"mistakes", to_json(evaluation.mistakes)},
                    {"pictures", to_json(evaluation.pictures)}};
  return json_text(out) + "\n";
}

EvaluationFile evaluation_from_json(const std::string& text, const std::string& source) {
  const auto value = parse_json(text, source, kEvaluationDepth);
  return evaluation_from({value, source});
}

void write_evaluation_file(const std::filesystem::path& path, const EvaluationFile& evaluation) {
  write_file_atomic(path.string(), evaluation_to_json(evaluation));
}

EvaluationFile read_evaluation_file(const std::filesystem::path& path) {
  return evaluation_from_json(read_file(path.string(), kMaxEvaluationBytes), path.string());
}

}  // namespace fovea::train
