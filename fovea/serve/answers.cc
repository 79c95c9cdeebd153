#include "fovea/serve/answers.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"
#include "fovea/inference/explain.h"
#include "fovea/serve/protocol/status_error.h"
#include "fovea/train/evaluate/mask_picture.h"

namespace fovea::serve {
namespace {

using inference::Input;
using std::chrono::steady_clock;

template <class T>
struct Result {
  std::optional<T> value = {};
  std::exception_ptr error = {};
};

// ask(inputs of one form) -> an outcome for each. Where it throws for all of them, each is asked
// about alone, so that the others do not pay for one.
template <class T, class Ask>
std::vector<Result<T>> ask_isolated(const std::vector<Input>& inputs, const Ask& ask) {
  std::vector<Result<T>> results;
  try {
    for (auto& outcome : ask(inputs)) {
      results.emplace_back();
      if (outcome.error) results.back().error = std::make_exception_ptr(*outcome.error);
      results.back().value = std::move(outcome.value);
    }
    return results;
  } catch (...) {
    if (inputs.size() == 1) return {{.value = {}, .error = std::current_exception()}};
  }
  results.clear();
  for (const auto& input : inputs)
    results.push_back(std::move(ask_isolated<T>({input}, ask).front()));
  return results;
}

template <class T>
using ResultsOfQuestions = std::vector<std::vector<Result<T>>>;

// Of the questions that want one of `outputs`; of the others nothing.
template <class T, class Ask>
ResultsOfQuestions<T> ask_about(std::span<const Question* const> questions,
                                std::initializer_list<std::string_view> outputs, const Ask& ask) {
  struct Group {
    std::vector<Input> inputs;
    std::vector<std::pair<size_t, size_t>> places;  // question, input of it
  };
  std::map<size_t, Group> groups;  // by the inputs' form
  ResultsOfQuestions<T> results(questions.size());
  for (size_t q = 0; q < questions.size(); ++q) {
    const auto& question = *questions[q];
    const bool is_wanted = std::any_of(outputs.begin(), outputs.end(),
                                       [&](auto name) { return question.wants(name); });
    if (!is_wanted) continue;
    results[q].resize(question.inputs.size());
    for (size_t i = 0; i < question.inputs.size(); ++i) {
      auto& group = groups[question.inputs[i].content.index()];
      group.inputs.push_back(question.inputs[i]);
      group.places.emplace_back(q, i);
    }
  }
  for (const auto& [form, group] : groups) {
    auto answers = ask_isolated<T>(group.inputs, ask);
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto [q, input] = group.places[i];
      results[q][input] = std::move(answers[i]);
    }
  }
  return results;
}

// Throws what is wrong with the first input that has no answer.
template <class T>
std::vector<const T*> values_of(const std::vector<Result<T>>& results) {
  std::vector<const T*> values;
  for (const auto& result : results) {
    if (result.error) std::rethrow_exception(result.error);
    values.push_back(&*result.value);
  }
  return values;
}

// What the questions' outputs are made of.
struct BatchResults {
  ResultsOfQuestions<inference::Classes> classes;
  ResultsOfQuestions<at::Tensor> features;
  ResultsOfQuestions<inference::Mask> masks;
  ResultsOfQuestions<inference::Attention> attention;
};

BatchResults compute_results(const inference::Predictor& predictor,
                             std::span<const Question* const> questions) {
  return {
      .classes = ask_about<inference::Classes>(
          questions, {kScores, kLabels},
          [&](const auto& inputs) { return predictor.classes(inputs); }),
      .features = ask_about<at::Tensor>(
          questions, {kFeatures}, [&](const auto& inputs) { return predictor.features(inputs); }),
      .masks =
          ask_about<inference::Mask>(questions, {kMask, kVoxels, kMaskPicture},
                                     [&](const auto& inputs) { return predictor.masks(inputs); }),
      .attention = ask_about<inference::Attention>(
          questions, {kAttention}, [&](const auto& inputs) { return predictor.attention(inputs); }),
  };
}

template <class T>
void add_numbers(std::string& bytes, std::span<const T> numbers) {
  bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

// [...] float32 on the CPU
void add_tensor(std::string& bytes, const at::Tensor& tensor) {
  const auto dense = tensor.contiguous();
  add_numbers<float>(bytes, {dense.const_data_ptr<float>(), static_cast<size_t>(dense.numel())});
}

void add_png(std::string& bytes, const data::Image& image) {
  const auto png = data::encode_png(image);
  add_bytes_element(bytes, {reinterpret_cast<const char*>(png.data()), png.size()});
}

// "0.812000:3:tulip", as Triton writes it.
void add_classification(std::string& bytes, const train::Inference& model, const at::Tensor& scores,
                        int64_t count) {
  for (const auto& [label, score] : inference::best(scores, count)) {
    auto text = fmt::format("{:f}:{}", score, label);
    if (!model.class_names.empty()) text += ":" + model.class_name(label);
    add_bytes_element(bytes, text);
  }
}

void fill_scores(const train::Inference& model,
                 const std::vector<const inference::Classes*>& classes, int64_t classification,
                 OutputTensor& output) {
  const auto num_classes = classes.front()->scores.size(0);
  const auto count = std::min(classification, num_classes);
  output.datatype = count > 0 ? "BYTES" : "FP32";
  output.shape.push_back(count > 0 ? count : num_classes);
  for (const auto* one : classes) {
    if (count > 0) {
      add_classification(output.bytes, model, one->scores, count);
    } else {
      add_tensor(output.bytes, one->scores);
    }
  }
}

void fill_mask(const std::vector<const inference::Mask*>& masks, OutputTensor& output) {
  output.datatype = "INT32";
  const auto& sides = masks.front()->sides;
  output.shape.insert(output.shape.end(), sides.begin(), sides.end());
  for (const auto* mask : masks) {
    if (mask->sides != sides) {
      fail_with(400,
                "masks of {} and {} pixels in one request; expected images of one size: send "
                "the others as requests of their own",
                shape_text(sides), shape_text(mask->sides));
    }
    add_numbers<int32_t>(output.bytes, mask->classes.classes);
  }
}

void add_mask_picture(std::string& bytes, const inference::Mask& mask) {
  const bool is_volume = mask.sample.is<data::Volume>();
  if (!is_volume && mask.sample.image().pixels.empty()) {
    fail_with(400, "output '{}' of a tensor, which has no colours; expected an `image`",
              kMaskPicture);
  }
  add_png(bytes, is_volume ? train::tinted(mask.sample.volume(), mask.classes)
                           : train::tinted(mask.sample.image(), mask.classes));
}

void add_attention(std::string& bytes, const inference::Attention& one) {
  const auto pictures =
      inference::explain(one.displayed, one.attention.blocks, one.attention.layout);
  add_png(bytes, inference::to_image(pictures.rollout));
}

// A BYTES tensor [N, 1] of what add(bytes, value) adds for each.
template <class T, class Add>
void fill_elements(const std::vector<Result<T>>& results, OutputTensor& output, const Add& add) {
  output.datatype = "BYTES";
  output.shape.push_back(1);
  for (const auto* value : values_of(results)) add(output.bytes, *value);
}

OutputTensor make_output(const OutputRequest& wanted, const train::Inference& model,
                         const BatchResults& results, size_t q, int64_t num_inputs) {
  OutputTensor output{.name = wanted.name,
                      .datatype = {},
                      .shape = {num_inputs},
                      .bytes = {},
                      .is_binary = wanted.is_binary};
  if (wanted.name == kScores) {
    fill_scores(model, values_of(results.classes[q]), wanted.classification, output);
  } else if (wanted.name == kLabels) {
    fill_elements(
        results.classes[q], output, [&](std::string& bytes, const inference::Classes& one) {
          add_bytes_element(bytes, model.class_name(inference::best(one.scores, 1).front().label));
        });
  } else if (wanted.name == kFeatures) {
    const auto features = values_of(results.features[q]);
    output.datatype = "FP32";
    output.shape.push_back(features.front()->numel());
    for (const auto* one : features) add_tensor(output.bytes, *one);
  } else if (wanted.name == kMask) {
    fill_mask(values_of(results.masks[q]), output);
  } else if (wanted.name == kVoxels) {
    const auto masks = values_of(results.masks[q]);
    output.datatype = "INT64";
    output.shape.push_back(static_cast<int64_t>(masks.front()->voxels.size()));
    for (const auto* one : masks) add_numbers<int64_t>(output.bytes, one->voxels);
  } else if (wanted.name == kMaskPicture) {
    fill_elements(results.masks[q], output, add_mask_picture);
  } else {
    FOVEA_CHECK(wanted.name == kAttention, "an output '{}' that nobody makes", wanted.name);
    fill_elements(results.attention[q], output, add_attention);
  }
  return output;
}

Answer make_answer(const Question& question, const train::Inference& model,
                   const BatchResults& results, size_t q) {
  Answer answer;
  try {
    for (const auto& wanted : question.outputs) {
      answer.outputs.push_back(
          make_output(wanted, model, results, q, static_cast<int64_t>(question.inputs.size())));
    }
  } catch (...) {
    answer.outputs.clear();
    answer.error = std::current_exception();
  }
  return answer;
}

}  // namespace

std::vector<Answer> answer(const inference::Predictor& predictor,
                           std::span<const Question* const> questions, AnswerTimes& times) {
  const auto begin = steady_clock::now();
  const auto results = compute_results(predictor, questions);
  const auto computed = steady_clock::now();
  std::vector<Answer> answers;
  for (size_t q = 0; q < questions.size(); ++q)
    answers.push_back(make_answer(*questions[q], predictor.loaded(), results, q));
  times.compute = computed - begin;
  times.output = steady_clock::now() - computed;
  return answers;
}

}  // namespace fovea::serve
