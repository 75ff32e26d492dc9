// From the chat template of a model file to what the routes call.
#pragma once

#include <string>

#include "kvern/tokenizer.h"
#include "server/served_model.h"

namespace kvern::server {

struct ChatRenderer {
  RenderChat render;
  bool knows_tools = false;
};

// A renderer for the template `source`. Content in parts is joined with line ends where the template reads text alone;
// arguments of tool calls, which clients send as JSON in a string, become values. Errors as of ChatTemplate::Parse.
Result<ChatRenderer> MakeChatRenderer(const std::string& source, const Tokenizer& tokenizer);

}  // namespace kvern::server
