// Everything that commands print goes through here: nothing of it is lost without a word, and text
// of foreign files (names of classes, tensors, files, keys) steers no terminal.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace fovea::app {

// To standard output, as it stands. Throws ExitRequest where it cannot be written: nobody reads on.
void write_output(std::string_view text);
// To standard error; control characters are shown, not sent.
void write_message(std::string_view text);

namespace detail {
std::string without_steering(std::string_view text);
}  // namespace detail

// Text for people: control characters are shown, not sent.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_output(detail::without_steering(fmt::format(format, std::forward<Args>(args)...)));
}

// JSON and YAML, which have their own way of writing such characters.
template <class... Args>
void say_as_is(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

// To standard error: "error: ...".
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) {
  write_message(fmt::format(format, std::forward<Args>(args)...));
}

// "1 sample", "2 samples".
std::string counted(int64_t count, std::string_view noun);

// A stream that the caller has closed is opened on nothing, so that no file that is opened later
// takes its number and what is printed.
void hold_standard_streams();

// The exit code once all of the output is written. What could not be written turns success into
// ExitCode::kData, with a message unless the reader has left, as `head` does.
int exit_code_after_output(int code);

}  // namespace fovea::app
