#include "fovea/data/volume/scan_header.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"
#include "fovea/core/printable.h"
#include "fovea/core/text.h"
#include "fovea/data/labels.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlockBytes = 4096;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 20;

template <class T>
std::optional<T> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_number<T>(text);
}

template <class T, class Parse>
std::vector<T> numbers_in(std::string_view text, size_t count, std::string_view field,
                          const std::string& source, Parse&& parse) {
  std::vector<T> numbers;
  for (const std::string_view word : words_of(text)) {
    const auto number = parse(word);
    if (number) numbers.push_back(*number);
    if (!number || numbers.size() > count) break;
  }
  if (numbers.size() != count || words_of(text).size() != count) {
    fail<DataError>("{}: {} is \"{}\"; expected {} number{}", source, field, printable_start(text),
                    count, count == 1 ? "" : "s");
  }
  return numbers;
}

}  // namespace

std::optional<std::string> HeaderLines::next() {
  size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    const uint64_t from = position_ + buffer_.size();
    const size_t count = std::min<uint64_t>(kBlockBytes, file_.size() - from);
    if (count == 0) break;
    if (from + count > kMaxHeaderBytes + kBlockBytes) {
      fail<DataError>("{}: a header of more than {} bytes; the file is damaged", file_.name(),
                      kMaxHeaderBytes);
    }
    const size_t seen = buffer_.size();
    buffer_.resize(seen + count);
    file_.read(from, {reinterpret_cast<uint8_t*>(buffer_.data()) + seen, count});
    end = buffer_.find('\n', seen);
  }
  if (buffer_.empty()) return std::nullopt;
  const size_t taken = end == std::string::npos ? buffer_.size() : end + 1;
  std::string line = buffer_.substr(0, std::min(end, buffer_.size()));
  buffer_.erase(0, taken);
  position_ += taken;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

void HeaderFields::add(std::string_view name, std::string_view value) {
  if (fields_.emplace(name, value).second) return;
  fail<DataError>("{}: the field \"{}\" is given twice", source_, printable_start(name, 40));
}

const std::string* HeaderFields::find(std::string_view name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? nullptr : &found->second;
}

const std::string* HeaderFields::find_any(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    if (const std::string* value = find(name)) return value;
  }
  return nullptr;
}

const std::string& HeaderFields::get(std::string_view name) const {
  const std::string* value = find(name);
  if (value == nullptr) fail<DataError>("{}: the header has no field \"{}\"", source_, name);
  return *value;
}

int64_t HeaderFields::whole(std::string_view name, int64_t missing) const {
  const std::string* value = find(name);
  return value == nullptr ? missing : whole_numbers(*value, 1, name, source_)[0];
}

double HeaderFields::decimal(std::string_view name, double missing) const {
  const std::string* value = find(name);
  return value == nullptr ? missing : decimal_numbers(*value, 1, name, source_)[0];
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (auto word = take_word(text); !word.empty(); word = take_word(text)) words.push_back(word);
  return words;
}

std::optional<int64_t> whole_number(std::string_view text) { return number_in<int64_t>(text); }

std::optional<double> decimal_number(std::string_view text) {
  const auto number = number_in<double>(text);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::vector<int64_t> whole_numbers(std::string_view text, size_t count, std::string_view field,
                                   const std::string& source) {
  return numbers_in<int64_t>(text, count, field, source, &whole_number);
}

std::vector<double> decimal_numbers(std::string_view text, size_t count, std::string_view field,
                                    const std::string& source) {
  return numbers_in<double>(text, count, field, source, &decimal_number);
}

std::shared_ptr<const ByteSource> open_detached(const std::string& path, std::string_view name) {
  if (name.empty() || name.starts_with("LIST") || name.find('%') != std::string_view::npos) {
    fail<DataError>("{}: its data is in \"{}\"; expected the name of one file: write it as one",
                    printable(path), printable_start(name));
  }
  const fs::path file = name;
  const bool leads_out =
      std::any_of(file.begin(), file.end(), [](const fs::path& part) { return part == ".."; });
  if (file.is_absolute() || leads_out) {
    fail<DataError>(
        "{}: its data is in \"{}\"; expected a file in the same folder or below it: move it there "
        "and correct the header",
        printable(path), printable_start(name));
  }
  return std::make_shared<FileSource>((fs::path(path).parent_path() / file).string());
}

}  // namespace fovea::data
