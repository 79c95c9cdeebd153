#include "fovea/train/evaluation_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/atomic_file.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/html.h"
#include "fovea/core/json.h"
#include "fovea/train/json_fields.h"

namespace fovea::train {
namespace {

using nlohmann::json;

constexpr int64_t kMaxClasses = 1'000'000;
constexpr size_t kMaxMetrics = 10'000;

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

SamplePrediction sample_from(const json& value) {
  SamplePrediction sample;
  read_field(value, "index", sample.index);
  read_field(value, "description", sample.description);
  read_field(value, "label", sample.label);
  read_field(value, "predicted", sample.predicted);
  read_field(value, "loss", sample.loss);
  for (const auto& one : list_field(value, "scores")) {
    ClassScore score;
    read_field(one, "label", score.label);
    read_field(one, "score", score.score);
    sample.scores.push_back(score);
  }
  std::string image;
  read_field(value, "image_png", image);
  sample.image_png = base64_decode(image);
  return sample;
}

std::vector<SamplePrediction> samples_from(const json& value, const char* key) {
  std::vector<SamplePrediction> samples;
  for (const auto& one : list_field(value, key)) samples.push_back(sample_from(one));
  return samples;
}

std::vector<ConfusionCount> confusion_from(const json& value, int64_t num_classes) {
  std::vector<ConfusionCount> out;
  for (const auto& one : list_field(value, "confusion")) {
    if (!one.is_array() || one.size() != 3) {
      fail<DataError>("an entry of \"confusion\" is not [label, predicted, count]");
    }
    const ConfusionCount count{integer_of(one[0], "label"), integer_of(one[1], "predicted"),
                               integer_of(one[2], "count")};
    const auto is_class = [&](int64_t label) { return label >= 0 && label < num_classes; };
    if (!is_class(count.label) || !is_class(count.predicted) || count.count < 0) {
      fail<DataError>("confusion [{}, {}, {}] with num_classes={}; expected labels below it",
                      count.label, count.predicted, count.count, num_classes);
    }
    out.push_back(count);
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

std::vector<EvaluationPicture> pictures_from(const json& value) {
  std::vector<EvaluationPicture> pictures;
  for (const auto& one : list_field(value, "pictures")) {
    EvaluationPicture picture;
    std::string image;
    read_field(one, "title", picture.title);
    read_field(one, "caption", picture.caption);
    read_field(one, "image_png", image);
    picture.image_png = base64_decode(image);
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

std::map<std::string, double> metrics_from(const json& value) {
  std::map<std::string, double> metrics;
  const auto found = value.find("metrics");
  if (found == value.end()) return metrics;
  if (!found->is_object() || found->size() > kMaxMetrics) {
    fail<DataError>("\"metrics\" is no object of at most {} numbers", kMaxMetrics);
  }
  for (const auto& [name, number] : found->items()) {
    metrics[name] = std::numeric_limits<double>::quiet_NaN();
    read_field(*found, name.c_str(), metrics[name]);
  }
  return metrics;
}

EvaluationFile evaluation_from(const json& value) {
  EvaluationFile out;
  out.metrics = metrics_from(value);
  read_field(value, "num_samples", out.num_samples);
  read_field(value, "num_left_out", out.num_left_out);
  read_field(value, "step", out.step);
  read_field(value, "epoch", out.epoch);
  read_field(value, "dataset", out.dataset);
  read_field(value, "num_classes", out.num_classes);
  if (out.num_classes < 0 || out.num_classes > kMaxClasses) {
    fail<DataError>("num_classes={}; expected 0 to {}", out.num_classes, kMaxClasses);
  }
  for (const auto& name : list_field(value, "class_names")) {
    out.class_names.push_back(string_of(name, "class_names"));
  }
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

std::vector<ConfusionCount> confusion_counts(std::span<const int64_t> matrix, int64_t num_classes) {
  FOVEA_CHECK(static_cast<int64_t>(matrix.size()) == num_classes * num_classes,
              "a confusion matrix of {} counts for {} classes; expected {}", matrix.size(),
              num_classes, num_classes * num_classes);
  std::vector<ConfusionCount> out;
  for (int64_t label = 0; label < num_classes; ++label) {
    for (int64_t predicted = 0; predicted < num_classes; ++predicted) {
      const int64_t count = matrix[static_cast<size_t>(label * num_classes + predicted)];
      if (count != 0) out.push_back({label, predicted, count});
    }
  }
  return out;
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
  const auto value = parse_json_object(text, source);
  try {
    return evaluation_from(value);
  } catch (const DataError& error) {
    fail<DataError>("{}: {}", source, error.what());
  }
}

void write_evaluation_file(const std::filesystem::path& path, const EvaluationFile& evaluation) {
  write_file_atomic(path.string(), evaluation_to_json(evaluation));
}

EvaluationFile read_evaluation_file(const std::filesystem::path& path) {
  return evaluation_from_json(read_file(path.string(), kMaxJsonBytes), path.string());
}

}  // namespace fovea::train
