#include "fovea/recipe_import/shell_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace fovea::recipe_import {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) {}

  std::vector<ShellStatement> all() {
    while (at_ < text_.size()) read_one();
    close_statement();
    return std::move(statements_);
  }

 private:
  char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }

  void add(const std::string& text, bool quoted) {
    is_open_ = true;
    const bool joins = !word_.pieces.empty() && !word_.pieces.back().expands() &&
                       word_.pieces.back().quoted == quoted;
    if (joins) {
      word_.pieces.back().text += text;
    } else {
      word_.pieces.push_back({.text = text, .shown = "", .quoted = quoted});
    }
  }

  void close_word() {
    if (is_open_ && !std::exchange(is_discarded_, false)) {
      (in_array_ ? array_ : words_).push_back(std::move(word_));
    }
    word_ = {};
    is_open_ = false;
  }

  void close_statement() {
    close_word();
    is_discarded_ = false;
    if (!words_.empty()) statements_.push_back(std::move(words_));
    words_ = {};
  }

  void read_one() {
    const char c = now();
    if (c == '\\') return read_backslash();
    if (c == '\'') return read_single_quotes();
    if (c == '"') return read_double_quotes();
    if (c == '`' || (c == '$' && (next() == '(' || next() == '{' || is_variable_start(next())))) {
      return read_expansion(false);
    }
    if (c == '#' && !is_open_) {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '<' || c == '>' || (c == '&' && next() == '>')) {
      read_redirection();
    } else if (c == '(' && is_assignment_so_far()) {
      open_array();
    } else if (c == ')' && in_array_) {
      close_array();
    } else if (c == '\n' ? !in_array_ : c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
      close_statement();
      ++at_;
    } else if (is_space(c)) {
      close_word();
      ++at_;
    } else {
      add(std::string(1, c), false);
      ++at_;
    }
  }

  static bool is_variable_start(char c) {
    return is_name_part(c) || std::string_view("@*#?$!-").find(c) != std::string_view::npos;
  }

  void read_backslash() {
    if (next() != '\n' && at_ + 1 < text_.size()) add(std::string(1, next()), true);
    at_ += 2;
  }

  void read_single_quotes() {
    const auto end = std::min(text_.find('\'', at_ + 1), text_.size());
    add(text_.substr(at_ + 1, end - at_ - 1), true);
    at_ = end + 1;
  }

  void read_double_quotes() {
    ++at_;
    add("", true);
    while (at_ < text_.size() && now() != '"') {
      const bool escapes =
          now() == '\\' && std::string_view("$`\"\\\n").find(next()) != std::string_view::npos;
      if (escapes) {
        if (next() != '\n') add(std::string(1, next()), true);
        at_ += 2;
      } else if (now() == '`' ||
                 (now() == '$' && (next() == '(' || next() == '{' || is_variable_start(next())))) {
        read_expansion(true);
      } else {
        add(std::string(1, now()), true);
        ++at_;
      }
    }
    ++at_;
  }

  // From `$` or a backtick on.
  void read_expansion(bool quoted) {
    const auto first = at_;
    std::string inner;
    if (now() == '`') {
      const auto end = std::min(text_.find('`', at_ + 1), text_.size());
      inner = "(" + text_.substr(at_ + 1, end - at_ - 1) + ")";
      at_ = std::min(end + 1, text_.size());
    } else if (next() == '(' || next() == '{') {
      const auto end = closing(at_ + 1);
      inner =
          next() == '{' ? text_.substr(at_ + 2, end - at_ - 2) : text_.substr(at_ + 1, end - at_);
      at_ = std::min(end + 1, text_.size());
    } else {
      at_ += 2;
      const bool is_name = is_name_part(text_[at_ - 1]) &&
                           std::isdigit(static_cast<unsigned char>(text_[at_ - 1])) == 0;
      while (is_name && is_name_part(now())) ++at_;
      inner = text_.substr(first + 1, at_ - first - 1);
    }
    is_open_ = true;
    word_.pieces.push_back(
        {.text = inner, .shown = text_.substr(first, at_ - first), .quoted = quoted});
  }

  // Of the bracket at `open`; the end of the text where it has none.
  size_t closing(size_t open) const {
    const char opens = text_[open], closes = opens == '(' ? ')' : '}';
    int depth = 0;
    for (size_t i = open; i < text_.size(); ++i) {
      if (text_[i] == opens) ++depth;
      if (text_[i] == closes && --depth == 0) return i;
    }
    return text_.size();
  }

  // `2>&1`, `> log.txt`, `<<EOF`: where output goes is no setting.
  void read_redirection() {
    const bool is_number = !word_.pieces.empty() && word_.pieces.size() == 1 &&
                           std::all_of(word_.pieces[0].text.begin(), word_.pieces[0].text.end(),
                                       [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number) {
      word_ = {};
      is_open_ = false;
    }
    close_word();
    if (now() == '<' && next() == '<') return skip_heredoc();
    while (now() == '<' || now() == '>' || now() == '&') ++at_;
    while (now() == ' ' || now() == '\t') ++at_;
    is_discarded_ = true;
  }

  void skip_heredoc() {
    at_ += 2;
    while (now() == '-' || now() == ' ' || now() == '<') ++at_;
    std::string mark;
    while (at_ < text_.size() && !is_space(now())) mark += text_[at_++];
    mark.erase(std::remove_if(mark.begin(), mark.end(),
                              [](char c) { return c == '\'' || c == '"' || c == '\\'; }),
               mark.end());
    const auto end = text_.find("\n" + mark + "\n", at_);
    at_ = end == std::string::npos ? text_.size() : end + mark.size() + 1;
  }

  bool is_assignment_so_far() const {
    return word_.pieces.size() == 1 && !word_.pieces[0].quoted && !word_.pieces[0].expands() &&
           word_.pieces[0].text.ends_with('=');
  }

  void open_array() {
    array_word_ = std::move(word_);
    word_ = {};
    is_open_ = false;
    in_array_ = true;
    ++at_;
  }

  void close_array() {
    close_word();
    in_array_ = false;
    array_word_.array = std::move(array_);
    array_word_.is_array = true;
    array_ = {};
    words_.push_back(std::move(array_word_));
    ++at_;
  }

  const std::string& text_;
  size_t at_ = 0;
  ShellText word_, array_word_;
  std::vector<ShellText> words_, array_;
  std::vector<ShellStatement> statements_;
  bool is_open_ = false, is_discarded_ = false, in_array_ = false;
};

}  // namespace

std::vector<ShellStatement> shell_statements(const std::string& text) { return Lexer(text).all(); }

std::string plain_text(const ShellText& word) {
  const bool is_plain =
      word.pieces.size() == 1 && !word.pieces[0].expands() && !word.pieces[0].quoted;
  return is_plain && !word.is_array ? word.pieces[0].text : "";
}

}  // namespace fovea::recipe_import
