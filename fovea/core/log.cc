#include "fovea/core/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "fovea/core/error.h"
#include "fovea/core/input_file.h"
#include "fovea/core/printable.h"
#include "fovea/core/write_error.h"

namespace fovea {
namespace {

std::shared_ptr<spdlog::sinks::sink> terminal() {
  static const auto sink = [] {
    auto made = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    made->set_pattern("%^%l%$: %v");
    made->set_level(spdlog::level::info);
    return made;
  }();
  return sink;
}

// Where files come and go, whatever other threads log meanwhile.
std::shared_ptr<spdlog::sinks::dist_sink_mt> files() {
  static const auto sinks = std::make_shared<spdlog::sinks::dist_sink_mt>();
  return sinks;
}

// The disk of a log file is full, say. The run goes on, and what it logs stands on the terminal.
void tell_once(const std::string& fault) {
  static std::atomic_flag told;
  if (told.test_and_set() || terminal()->level() == spdlog::level::off) return;
  fmt::print(stderr, "warning: the log file cannot be written any more: {}\n",
             printable_lines(fault.substr(0, fault.find('\n'))));
}

spdlog::logger& logger() {
  static const auto only = [] {
    const std::initializer_list<spdlog::sink_ptr> sinks = {terminal(), files()};
    auto made = std::make_shared<spdlog::logger>("fovea", sinks);
    made->set_level(spdlog::level::debug);
    made->flush_on(spdlog::level::debug);
    made->set_error_handler(tell_once);
    spdlog::set_default_logger(made);
    return made;
  }();
  return *only;
}

}  // namespace

// What a message quotes may come from anywhere; no line of it steers a terminal.
void log_info(const std::string& message) { logger().info(printable_lines(message)); }

void log_warning(const std::string& message) { logger().warn(printable_lines(message)); }

void log_to_file(const std::string& message) { logger().debug(printable_lines(message)); }

LogFile::LogFile(const std::string& path) {
  check_output_file(path);
  try {
    sink_ = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
  } catch (const spdlog::spdlog_ex& error) {
    fail<WriteError>("{}: the log cannot be written: {}", path, error.what());
  }
  sink_->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
  files()->add_sink(sink_);
}

LogFile::~LogFile() { files()->remove_sink(sink_); }

void set_log_verbose(bool is_verbose) {
  terminal()->set_level(is_verbose ? spdlog::level::info : spdlog::level::warn);
}

bool is_log_verbose() { return terminal()->level() <= spdlog::level::info; }

void mute_log() { terminal()->set_level(spdlog::level::off); }

}  // namespace fovea
