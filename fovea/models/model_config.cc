#include "fovea/models/model_config.h"

#include <type_traits>
#include <utility>

namespace fovea {
namespace {

using ModelVariant = decltype(models::ModelConfig::value);
constexpr size_t kNumBuiltIn = std::variant_size_v<ModelVariant> - 1;  // all but OwnModelConfig

// f(std::type_identity<C>()) for each config C of the library.
template <class F, size_t... I>
void for_each_built_in(F&& f, std::index_sequence<I...>) {
  (f(std::type_identity<std::variant_alternative_t<I, ModelVariant>>()), ...);
}

template <class F>
void for_each_built_in(F&& f) {
  for_each_built_in(std::forward<F>(f), std::make_index_sequence<kNumBuiltIn>());
}

using ModelBinding = detail::BoundOneOf<models::ModelConfig>;

}  // namespace

template <>
std::string_view detail::OneOfValue<ModelVariant>::name() const {
  return std::visit(
      [](const auto& chosen) -> std::string_view {
        using Chosen = std::decay_t<decltype(chosen)>;
        if constexpr (std::is_same_v<Chosen, models::OwnModelConfig>) {
          return chosen.name();
        } else {
          return Chosen::kName;
        }
      },
      value);
}

std::string_view ModelBinding::tag() const { return tag_key<models::VitConfig>(); }

std::vector<std::string> ModelBinding::names() const {
  std::vector<std::string> names;
  for_each_built_in([&](auto type) { names.emplace_back(decltype(type)::type::kName); });
  for (auto& own : models::own_model_names()) names.push_back(std::move(own));
  return names;
}

size_t ModelBinding::index() const {
  const auto* own = target.get_if<models::OwnModelConfig>();
  return own ? kNumBuiltIn + own->index() : target.value.index();
}

void ModelBinding::select(size_t index) const {
  if (index >= kNumBuiltIn) {
    target.value.emplace<models::OwnModelConfig>(index - kNumBuiltIn);
    return;
  }
  size_t i = 0;
  for_each_built_in([&](auto type) {
    if (i++ == index) target.value.emplace<typename decltype(type)::type>();
  });
}

std::unique_ptr<SectionBinding> ModelBinding::chosen() const {
  return std::visit(
      [](auto& chosen) -> std::unique_ptr<SectionBinding> {
        if constexpr (std::is_same_v<std::decay_t<decltype(chosen)>, models::OwnModelConfig>) {
          return chosen.value().bind();
        } else {
          return bind_config(chosen);
        }
      },
      target.value);
}

ConfigPrototype ModelBinding::prototype(size_t index) const {
  auto config = std::make_shared<models::ModelConfig>();
  const ModelBinding binding(*config);
  binding.select(index);
  return {config, binding.chosen()};
}

template struct detail::OneOfValue<ModelVariant>;

}  // namespace fovea
