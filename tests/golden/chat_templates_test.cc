// Chat templates of public models against Python's jinja2: every template in $KVERN_TEST_DATA/chat_templates (and those
// of the model files in models/), over the conversations of chat_conversations.json. The templates are not ours, so
// chat_templates.json has lengths and digests only. Where they differ:
//
//   KVERN_SHOW_CHAT="FILE.jinja/name of a conversation" build/ci/tests/chat_templates_golden_test > kvern.txt
//   .venv-chat/bin/python scripts/make_chat_template_golden.py show DIR/FILE.jinja "name of a conversation" >
//   python.txt cmp kvern.txt python.txt
//
// Snippets of our own (jinja_snippets.json) hold what Python prints in full. KVERN_JINJA_SNIPPETS names another such
// file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "gguf/gguf_file.h"
#include "kvern/chat.h"
#include "platform/file_system.h"
#include "tests/support/chat_json.h"

namespace kvern {
namespace {

using Json = nlohmann::ordered_json;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return in ? out.str() : "";
}

Json ReadJson(const std::string& path) {
  Json json = Json::parse(ReadAll(path), nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << path << " cannot be read";
  return json;
}

std::string Sha256(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) {
    constexpr char kHex[] = "0123456789abcdef";
    hex += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return hex;
}

// The clock of scripts/make_chat_template_golden.py.
std::tm GoldenTime() {
  std::tm now{};
  now.tm_year = 2026 - 1900;
  now.tm_mon = 2;
  now.tm_mday = 7;
  now.tm_hour = 14;
  now.tm_min = 5;
  now.tm_sec = 9;
  now.tm_wday = 6;
  now.tm_yday = 65;
  return now;
}

ChatInput InputOf(const Json& conversation, const Json& tools) {
  ChatInput input;
  const ChatValue messages = ToChatValue(conversation["messages"]);
  for (int i = 0; i < conversation.value("repeat", 1); ++i) {
    input.messages.insert(input.messages.end(), messages.AsList()->begin(), messages.AsList()->end());
  }
  if (conversation.contains("tools")) input.tools = ToChatValue(tools[conversation["tools"].get<std::string>()]);
  if (conversation.contains("documents")) input.documents = ToChatValue(conversation["documents"]);
  if (conversation.contains("more")) input.more = *ToChatValue(conversation["more"]).AsMap();
  input.add_generation_prompt = conversation.value("add_generation_prompt", true);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = GoldenTime();
  return input;
}

// The text of a template by the name of its file; "" where the file is not there.
std::string TemplateText(const std::string& name) {
  if (name.ends_with(".gguf")) {
    const auto file = GgufFile::Open(PosixFileSystem(), "models/" + name);
    if (!file.ok()) return "";
    const auto text = file->GetStringOr("tokenizer.chat_template", "");
    return text.ok() ? std::string(*text) : "";
  }
  const char* data = std::getenv("KVERN_TEST_DATA");
  return data == nullptr ? "" : ReadAll(std::string(data) + "/chat_templates/" + name);
}

std::string Summary(const Result<std::string>& text) {
  if (!text.ok()) return "error";
  return std::to_string(text->size()) + " " + Sha256(*text);
}

TEST(ChatTemplatesGoldenTest, EveryTemplateRendersEveryConversationAsPythonDoes) {
  const Json golden = ReadJson("tests/golden/chat_templates.json");
  const Json conversations = ReadJson("tests/golden/chat_conversations.json");
  const Json tools = ReadJson("tests/golden/chat_tools.json");
  const char* const wanted = std::getenv("KVERN_SHOW_CHAT");
  size_t num_templates = 0;
  size_t num_differences = 0;

  for (const auto& [name, expected] : golden.items()) {
    const std::string text = TemplateText(name);
    if (text.empty()) continue;
    ++num_templates;
    ASSERT_EQ(Sha256(text), expected["template_sha256"].get<std::string>()) << name << " is another version";
    const auto chat = ChatTemplate::Parse(text);
    ASSERT_TRUE(chat.ok()) << name << ": " << chat.status().ToString();
    for (const Json& conversation : conversations) {
      const auto conversation_name = conversation["name"].get<std::string>();
      const auto rendering = chat->Render(InputOf(conversation, tools));
      if (wanted != nullptr && wanted == name + "/" + conversation_name) {
        std::cout << (rendering.ok() ? *rendering : rendering.status().ToString());
        std::exit(rendering.ok() ? 0 : 1);
      }
      const auto expected_summary = expected["renderings"][conversation_name].get<std::string>();
      const bool is_same = Summary(rendering) == expected_summary;
      num_differences += !is_same;
      EXPECT_TRUE(is_same || num_differences > 20)
          << name << "/" << conversation_name << ": expected " << expected_summary << ", found " << Summary(rendering)
          << (rendering.ok() ? "" : " " + rendering.status().ToString());
    }
  }
  EXPECT_EQ(num_differences, 0u);
  if (num_templates == 0) GTEST_SKIP() << "KVERN_TEST_DATA has no chat_templates, and there is no model in models/";
}

TEST(ChatTemplatesGoldenTest, AbilitiesAreThoseOfTheModels) {
  struct Expected {
    const char* name;
    bool system_role, tools, content_parts;
  };
  constexpr Expected kExpected[] = {
      {"google-gemma-2-2b-it.jinja", false, false, false},
      {"Qwen-Qwen3-0.6B.jinja", true, true, false},
      {"Mistral-Small-3.2-24B-Instruct-2506.jinja", true, true, true},
      {"microsoft-Phi-3.5-mini-instruct.jinja", true, false, false},
      {"GLM-4.6.jinja", true, true, true},
      {"meta-llama-Llama-3.2-3B-Instruct.jinja", true, true, false},
      {"SmolLM2-135M-Instruct.Q4_1.gguf", true, false, false},
  };
  size_t num_templates = 0;

  for (const Expected& expected : kExpected) {
    const std::string text = TemplateText(expected.name);
    if (text.empty()) continue;
    ++num_templates;
    const auto chat = ChatTemplate::Parse(text);
    ASSERT_TRUE(chat.ok());
    EXPECT_EQ(chat->abilities().system_role, expected.system_role) << expected.name;
    EXPECT_EQ(chat->abilities().tools, expected.tools) << expected.name;
    EXPECT_EQ(chat->abilities().content_parts, expected.content_parts) << expected.name;
  }
  if (num_templates == 0) GTEST_SKIP() << "KVERN_TEST_DATA has no chat_templates, and there is no model in models/";
}

TEST(ChatTemplatesGoldenTest, SnippetsPrintWhatPythonPrints) {
  const char* const other = std::getenv("KVERN_JINJA_SNIPPETS");
  const Json groups = ReadJson(other != nullptr ? other : "tests/golden/jinja_snippets.json");

  for (const Json& group : groups) {
    ChatInput input;
    input.more = *ToChatValue(group["variables"]).AsMap();
    input.now = GoldenTime();
    for (const auto& [source, expected] : group["results"].items()) {
      const auto chat = ChatTemplate::Parse(source);
      const auto text = chat.ok() ? chat->Render(input) : Result<std::string>(chat.status());
      if (expected.is_string()) {
        EXPECT_EQ(text.ok() ? *text : text.status().ToString(), expected.get<std::string>())
            << group["about"] << ": " << source;
      } else {
        EXPECT_FALSE(text.ok()) << group["about"] << ": " << source << "\nprints " << (text.ok() ? *text : "")
                                << "\nexpected " << expected["error"];
        EXPECT_THAT(text.status().message(), ::testing::HasSubstr("line ")) << source;
      }
    }
  }
}

}  // namespace
}  // namespace kvern
