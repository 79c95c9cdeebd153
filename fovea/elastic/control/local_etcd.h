// An etcd of this run alone, on this machine: for runs that are given none.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/elastic/control/etcd_client.h"

namespace fovea::elastic {

struct LocalEtcdOptions {
  std::filesystem::path folder;          // of its data and its log; made where it is not there
  int64_t port = 0;                      // 0: any free one
  std::vector<std::string> arguments{};  // more of them
};

// Whether this machine has an etcd to start: the program on PATH.
bool has_etcd_program();
// A port of 127.0.0.1 that is free at the moment; another program may take it before it is used.
int64_t free_local_port();

// `etcd` as a child process that listens on 127.0.0.1 alone, where whoever is on this machine can
// reach it. It ends with the object, and with the thread that started it, however that or its
// process ends; its data stays in the folder, and who starts it there again finds it as it was.
class LocalEtcd {
 public:
  // Has started and answers, or throws Error with the end of its log: ConfigError where the program
  // is not there.
  explicit LocalEtcd(LocalEtcdOptions options);
  ~LocalEtcd();
  LocalEtcd(const LocalEtcd&) = delete;
  LocalEtcd& operator=(const LocalEtcd&) = delete;

  EtcdPlace place() const { return {.endpoints = {url_}}; }
  const std::string& url() const { return url_; }
  pid_t process() const { return process_; }
  int64_t port() const { return options_.port; }

  // Ends it in good order, or by SIGKILL where it has not gone after some seconds.
  void stop();
  // Ends it as a machine that fails would: SIGKILL.
  void kill();
  // After stop() or kill(): at the same place, with the same data.
  void start();

 private:
  bool is_running();
  void launch();
  bool wait_until_healthy();
  [[noreturn]] void fail_to_start() const;
  std::filesystem::path log_file() const { return options_.folder / "etcd.log"; }

  LocalEtcdOptions options_;
  bool is_port_given_;
  std::string url_;
  pid_t process_ = 0;  // 0: none runs
};

}  // namespace fovea::elastic
