#include "fovea/core/nearest.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fovea/core/files.h"
#include "fovea/core/printable.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestGuess = 64;
constexpr size_t kShortestStart = 3;
constexpr int kMostEntries = 4096;  // of a folder: it may hold a data set

size_t allowed_distance(std::string_view word) { return std::max<size_t>(1, word.size() / 3); }

std::string_view last_part(std::string_view key) {
  const size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool differ_in_digits_alone(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return x == y || (is_digit(x) && is_digit(y));
         });
}

// How many edits a name of a file may be away: endings are the same for many, and say nothing.
size_t allowed_of_file(const std::string& name) {
  const auto stem = fs::path(name).stem().string();
  return stem.size() < 2 ? 0 : allowed_distance(stem);
}

std::string nearest_entry(const fs::path& folder, const std::string& name) {
  if (name.size() > kLongestGuess) return "";
  std::string best;
  size_t best_distance = allowed_of_file(name) + 1;
  std::error_code error;
  fs::directory_iterator entries(folder.empty() ? fs::path(".") : folder, error);
  for (int i = 0; !error && entries != fs::directory_iterator() && i < kMostEntries; ++i) {
    const auto candidate = entries->path().filename().string();
    const auto distance = edit_distance(name, candidate);
    // The order of a folder's entries is nobody's choice.
    const bool is_nearer =
        distance < best_distance || (distance == best_distance && candidate < best);
    if (is_nearer && !differ_in_digits_alone(name, candidate)) {  // nor a link that leads nowhere
      best_distance = distance;
      best = candidate;
    }
    entries.increment(error);
  }
  return best;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > kLongestGuess) return "";
  std::string best;
  size_t best_distance = allowed_distance(word) + 1;
  for (const auto& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  if (!best.empty() || word.size() < kShortestStart) return best;
  const auto longer = std::find_if(known.begin(), known.end(), [&](const std::string& candidate) {
    return candidate.starts_with(word);
  });
  return longer == known.end() ? "" : *longer;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string guess = nearest(word, known);
  return guess.empty() ? "" : "did you mean " + guess + "?";
}

std::string or_did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string question = did_you_mean(word, known);
  return question.empty() ? "" : "; " + question;
}

std::string nearest_key(std::string_view key, const std::vector<std::string>& known,
                        const std::vector<std::string>& all_keys) {
  if (key.size() > kLongestGuess) return "";
  const std::string here = nearest(key, known);
  const size_t distance_here = here.empty() ? kLongestGuess : edit_distance(key, here);
  if (distance_here <= 1 && key.size() > 3) return here;
  for (const auto& full : all_keys) {
    if (full == key || last_part(full) == key) return full;
  }
  if (!here.empty()) return here;
  for (const auto& full : all_keys) {
    if (key.size() > 3 && edit_distance(key, last_part(full)) <= 1) return full;
  }
  return "";
}

std::string nearest_path(const std::string& path) {
  fs::path there;
  for (const auto& part : fs::path(path)) {
    if (is_there(there / part)) {
      there /= part;
      continue;
    }
    const auto name = nearest_entry(there, part.string());
    if (name.empty()) return "";
    there /= name;
  }
  return there == path ? "" : there.string();
}

std::string or_nearest_path(const std::string& path) {
  const auto guess = nearest_path(path);
  return guess.empty() ? "" : "; did you mean " + printable(guess) + "?";
}

}  // namespace fovea
