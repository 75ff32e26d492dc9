// A `kvern serve` that another command of this program starts for itself and stops at its end.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "kvern/status.h"

namespace kvern::cli {

class OwnServer {
 public:
  // Runs this program with "serve --port 0" and `arguments`, and waits until the model is loaded. What it prints on
  // stderr stays there. kIoError where it cannot be started or ends before it serves.
  static Result<std::unique_ptr<OwnServer>> Start(const std::vector<std::string>& arguments);
  // Lets it end in order and waits for that.
  ~OwnServer();
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;

  // Whether it has ended by itself.
  bool HasEnded();

  const std::string& url() const { return url_; }  // "http://127.0.0.1:40123"

 private:
  OwnServer() = default;
  Status AwaitUrl(int its_stdout);

  pid_t process_ = -1;  // Until it has ended.
  std::string url_;
};

// The address in the line that a server prints once it serves: "kvern: serving NAME on http://...   curl ...". "" where
// there is none.
std::string UrlInServingLine(const std::string& line);

}  // namespace kvern::cli
