#include "server/openai/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;
using ::testing::Not;
using ::testing::Pair;
using ::testing::ResultOf;

// The error that a chat request with these fields beside its messages has, or "".
std::string ChatError(const std::string& fields) {
  FieldErrors errors;
  ReadChatRequest(ParseJson(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}").value(), errors);
  return errors.first ? errors.first->message : "";
}

std::string MessagesError(const std::string& messages) {
  FieldErrors errors;
  ReadChatRequest(ParseJson("{\"messages\":" + messages + "}").value(), errors);
  return errors.first ? errors.first->message : "";
}

std::string CompletionError(const std::string& body) {
  FieldErrors errors;
  ReadCompletionRequest(ParseJson(body).value(), errors);
  return errors.first ? errors.first->message : "";
}

ChatRequest Chat(const std::string& fields) {
  FieldErrors errors;
  ChatRequest request =
      ReadChatRequest(ParseJson(R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}").value(), errors);
  EXPECT_FALSE(errors.first.has_value()) << errors.first->message;
  return request;
}

TEST(ChatRequestTest, FieldsOfTheApiAreRead) {
  const ChatRequest request = Chat(
      R"(,"model":"m","temperature":0.5,"top_p":0.9,"min_p":0.1,"top_k":40,"presence_penalty":1,"frequency_penalty":-2,
         "repetition_penalty":1.5,"seed":-7,"n":3,"max_completion_tokens":5,"max_tokens":6,"stop":["a","b"],
         "stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":4,"user":"u",
         "logit_bias":{"12":-100,"7":1.5},"response_format":{"type":"text"},"unknown":{"x":1})");

  EXPECT_EQ(request.answer.model, "m");
  EXPECT_EQ(request.answer.sampling.temperature, 0.5f);
  EXPECT_EQ(request.answer.sampling.top_p, 0.9f);
  EXPECT_EQ(request.answer.sampling.min_p, 0.1f);
  EXPECT_EQ(request.answer.sampling.top_k, 40u);
  EXPECT_EQ(request.answer.sampling.presence_penalty, 1);
  EXPECT_EQ(request.answer.sampling.frequency_penalty, -2);
  EXPECT_EQ(request.answer.sampling.repeat_penalty, 1.5f);
  EXPECT_EQ(request.answer.sampling.seed, static_cast<uint64_t>(-7));
  EXPECT_EQ(request.answer.num_choices, 3u);
  EXPECT_EQ(request.answer.max_tokens, 5u);
  EXPECT_THAT(request.answer.stop, ElementsAre("a", "b"));
  EXPECT_TRUE(request.answer.is_streamed);
  EXPECT_TRUE(request.answer.includes_usage);
  EXPECT_TRUE(request.answer.wants_logprobs);
  EXPECT_EQ(request.answer.num_top_logprobs, 4u);
  EXPECT_THAT(request.answer.sampling.logit_bias, ElementsAre(Pair(12, -100.0f), Pair(7, 1.5f)));
}

TEST(ChatRequestTest, WhatIsLeftOutOrNullIsTheApisDefault) {
  for (const char* fields : {"", R"(,"temperature":null,"n":null,"stop":null,"seed":null,"tools":null,"model":null)"}) {
    const ChatRequest request = Chat(fields);

    EXPECT_EQ(request.answer.sampling.temperature, 1);
    EXPECT_EQ(request.answer.num_choices, 1u);
    EXPECT_FALSE(request.answer.max_tokens.has_value());
    EXPECT_FALSE(request.answer.has_seed);
    EXPECT_FALSE(request.answer.is_streamed);
    EXPECT_TRUE(request.tools.empty());
    EXPECT_TRUE(request.adds_generation_prompt);
  }
  EXPECT_EQ(Chat(R"(,"top_k":-1)").answer.sampling.top_k, 0u);
  EXPECT_GT(Chat(R"(,"top_p":0)").answer.sampling.top_p, 0);
}

TEST(ChatRequestTest, WrongTypesAndValuesNameTheField) {
  EXPECT_EQ(ChatError(R"("temperature":"hot")"), "temperature: expected a number, found a string");
  EXPECT_EQ(ChatError(R"("temperature":-1)"), "temperature: is -1, expected 0 to 100");
  EXPECT_EQ(ChatError(R"("temperature":1e300)"), "temperature: is 1e+300, expected 0 to 100");
  EXPECT_EQ(ChatError(R"("top_p":1.5)"), "top_p: is 1.5, expected 0 to 1");
  EXPECT_EQ(ChatError(R"("n":0)"), "n: is 0, expected an integer from 1 to 128");
  EXPECT_EQ(ChatError(R"("n":1.5)"), "n: is 1.5, expected an integer from 1 to 128");
  EXPECT_EQ(ChatError(R"("n":1000000)"), "n: is 1000000, expected an integer from 1 to 128");
  EXPECT_EQ(ChatError(R"("max_tokens":-5)"), "max_tokens: is -5, expected an integer from 0 to 2147483647");
  EXPECT_THAT(ChatError(R"("max_tokens":99999999999999999999)"), HasSubstr("max_tokens: is 1e+20"));
  EXPECT_EQ(ChatError(R"("max_completion_tokens":"5")"), "max_completion_tokens: expected an integer, found a string");
  EXPECT_EQ(ChatError(R"("seed":1.5)"), "seed: is 1.5, expected an integer");
  EXPECT_EQ(ChatError(R"("stream":1)"), "stream: expected a boolean, found a number");
  EXPECT_EQ(ChatError(R"("user":1)"), "user: expected a string, found a number");
  EXPECT_EQ(ChatError(R"("top_k":-2)"), "top_k: is -2, expected an integer from 0 to 2147483647");
  EXPECT_EQ(ChatError(R"("top_logprobs":3)"), "top_logprobs: is for log probabilities: set logprobs to true");
  EXPECT_EQ(ChatError(R"("logprobs":5)"), "logprobs: expected a boolean, found a number");
  EXPECT_EQ(ChatError(R"("stream_options":{"include_usage":1},"stream":true)"),
            "stream_options.include_usage: expected a boolean, found a number");
  EXPECT_THAT(ChatError(R"("stream_options":{})"), HasSubstr("stream_options: is for streams"));
  EXPECT_EQ(ChatError(R"("stream_options":[],"stream":true)"), "stream_options: is an array, expected an object");
  EXPECT_EQ(ChatError(R"("presence_penalty":3)"), "presence_penalty: is 3, expected -2 to 2");
}

TEST(ChatRequestTest, StopsAreBounded) {
  std::string many = "\"stop\":[\"a\"";
  for (int i = 1; i < 1000; ++i) many += ",\"a\"";
  EXPECT_EQ(ChatError(many + "]"), "stop: has 1000 strings, expected at most 16");
  EXPECT_EQ(ChatError(R"("stop":["a",1])"), "stop[1]: expected a string, found a number");
  EXPECT_EQ(ChatError(R"("stop":"")"), "stop: is empty");
  EXPECT_EQ(ChatError(R"("stop":["a",""])"), "stop[1]: is empty");
  EXPECT_EQ(ChatError(R"("stop":{})"), "stop: expected a string or an array of strings, found an object");
  EXPECT_EQ(ChatError(R"("stop":")" + std::string(513, 'x') + "\""), "stop: has 513 bytes, expected at most 512");
}

TEST(ChatRequestTest, LogitBiasNamesItsEntries) {
  EXPECT_EQ(ChatError(R"("logit_bias":[])"), "logit_bias: expected an object, found an array");
  EXPECT_EQ(ChatError(R"("logit_bias":{"x":1})"), "logit_bias: has the key \"x\", expected a token id");
  EXPECT_EQ(ChatError(R"("logit_bias":{"-1":1})"), "logit_bias: has the key \"-1\", expected a token id");
  EXPECT_EQ(ChatError(R"("logit_bias":{"99999999999":1})"),
            "logit_bias: has the key \"99999999999\", expected a token id");
  EXPECT_EQ(ChatError(R"("logit_bias":{"1":"x"})"), "logit_bias.1: expected a number, found a string");
  EXPECT_EQ(ChatError(R"("logit_bias":{"1":101})"), "logit_bias.1: is 101, expected -100 to 100");
}

TEST(ChatRequestTest, WhatWouldChangeTheAnswerIsNotPassedOver) {
  EXPECT_THAT(ChatError(R"("response_format":{"type":"json_schema"})"),
              HasSubstr("response_format.type: is \"json_schema\""));
  EXPECT_THAT(ChatError(R"("response_format":{"type":"json_object"})"), HasSubstr("response_format.type"));
  EXPECT_THAT(ChatError(R"("response_format":"json")"), HasSubstr("response_format: is a string"));
  EXPECT_EQ(ChatError(R"("grammar":"root ::= x")"), "grammar: is not supported by this server");
  EXPECT_EQ(ChatError(R"("functions":[{}])"), "functions: is not supported by this server");
  EXPECT_EQ(ChatError(R"("mirostat":0,"functions":[],"grammar":"","typical_p":1.0,"min_tokens":0)"), "");
  EXPECT_EQ(ChatError(R"("typical_p":0.9)"), "typical_p: is not supported by this server");
  EXPECT_EQ(ChatError(R"("n_predict":5)"), "n_predict: is not supported by this server");
  EXPECT_THAT(ChatError(R"("tool_choice":"required")"), HasSubstr("tool_choice: is \"required\""));
  EXPECT_EQ(ChatError(R"("tools":{})"), "tools: expected an array, found an object");
  EXPECT_EQ(ChatError(R"("tools":[1])"), "tools[0]: is a number, expected an object");
  EXPECT_EQ(ChatError(R"("chat_template_kwargs":1)"), "chat_template_kwargs: is a number, expected an object");
}

TEST(ChatRequestTest, ToolsThatMayNotBeCalledAreLeftOut) {
  EXPECT_EQ(Chat(R"(,"tools":[{"type":"function"}])").tools.size(), 1u);
  EXPECT_TRUE(Chat(R"(,"tools":[{"type":"function"}],"tool_choice":"none")").tools.empty());
}

TEST(ChatRequestTest, MessagesNameThePlaceOfTheMistake) {
  EXPECT_EQ(MessagesError("[]"), "messages: is empty, expected at least one message");
  EXPECT_EQ(MessagesError("{}"), "messages: expected an array, found an object");
  EXPECT_EQ(MessagesError("null"), "messages: is missing, expected an array of messages");
  EXPECT_EQ(MessagesError("[1]"), "messages[0]: is a number, expected an object");
  EXPECT_THAT(MessagesError(R"([{"content":"x"}])"), HasSubstr("messages[0].role: is missing"));
  EXPECT_EQ(MessagesError(R"([{"role":1}])"), "messages[0].role: expected a string, found a number");
  EXPECT_THAT(MessagesError(R"([{"role":"user"}])"), HasSubstr("messages[0].content: is missing"));
  EXPECT_THAT(MessagesError(R"([{"role":"user","content":5}])"), HasSubstr("messages[0].content: expected a string"));
  EXPECT_EQ(MessagesError(
                R"([{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"a"},{"type":5}]}])"),
            "messages[1].content[1].type: expected a string, found a number");
  EXPECT_EQ(MessagesError(R"([{"role":"user","content":[{"type":"image_url"}]}])"),
            "messages[0].content[0].type: is \"image_url\", and this server supports \"text\" alone");
  EXPECT_EQ(MessagesError(R"([{"role":"user","content":[{"type":"text"}]}])"),
            "messages[0].content[0].text: is missing");
  EXPECT_EQ(MessagesError(R"([{"role":"user","content":[]}])"),
            "messages[0].content: is an empty array, expected text");
  EXPECT_EQ(MessagesError(R"([{"role":"assistant","content":null,"tool_calls":[]}])"), "");
}

TEST(ChatRequestTest, ABodyThatIsNoObjectSaysSo) {
  for (const char* body : {"[]", "1", "null", "\"x\""}) {
    FieldErrors errors;
    ReadChatRequest(ParseJson(body).value(), errors);
    EXPECT_THAT(errors.first->message, HasSubstr("the body is ")) << body;
  }
}

TEST(ChatRequestTest, MessagesDoNotRepeatWhatIsLong) {
  const std::string text(100'000, '1');
  for (const std::string& fields :
       {"\"response_format\":{\"type\":\"" + text + "\"}", "\"tool_choice\":\"" + text + "\"",
        "\"logit_bias\":{\"x" + text + "\":1}", "\"logit_bias\":{\"1\":1" + text.substr(0, 300) + "}",
        "\"seed\":\"" + text + "\""}) {
    EXPECT_THAT(ChatError(fields), AllOf(Not(""), ResultOf([](const std::string& e) { return e.size(); }, Lt(400u))));
  }
}

TEST(CompletionRequestTest, PromptsComeInFourShapes) {
  const auto prompts = [](const std::string& prompt) {
    FieldErrors errors;
    const CompletionRequest request = ReadCompletionRequest(ParseJson("{\"prompt\":" + prompt + "}").value(), errors);
    EXPECT_FALSE(errors.first.has_value());
    return request.prompts;
  };

  EXPECT_THAT(prompts(R"("a")"), ElementsAre(PromptInput("a")));
  EXPECT_THAT(prompts(R"(["a","b"])"), ElementsAre(PromptInput("a"), PromptInput("b")));
  EXPECT_THAT(prompts("[1,2]"), ElementsAre(PromptInput(std::vector<TokenId>{1, 2})));
  EXPECT_THAT(prompts(R"([[1],"b"])"), ElementsAre(PromptInput(std::vector<TokenId>{1}), PromptInput("b")));
}

TEST(CompletionRequestTest, WrongPromptsNameThePlace) {
  EXPECT_THAT(CompletionError("{}"), HasSubstr("prompt: is missing"));
  EXPECT_EQ(CompletionError(R"({"prompt":[]})"), "prompt: has 0 prompts, expected 1 to 128");
  EXPECT_EQ(CompletionError(R"({"prompt":5})"), "prompt: expected a string or an array of token ids, found a number");
  EXPECT_EQ(CompletionError(R"({"prompt":[1,-2]})"), "prompt[1]: is no token id but -2");
  EXPECT_EQ(CompletionError(R"({"prompt":[1,2.5]})"), "prompt[1]: is no token id but 2.5");
  EXPECT_EQ(CompletionError(R"({"prompt":["a",[1,"x"]]})"), "prompt[1][1]: is no token id but a string");
  EXPECT_EQ(CompletionError(R"({"prompt":["a",{}]})"),
            "prompt[1]: expected a string or an array of token ids, found an object");
}

TEST(CompletionRequestTest, WhatIsNotSupportedSaysSo) {
  EXPECT_THAT(CompletionError(R"({"prompt":"a","echo":true})"), HasSubstr("echo: is not supported"));
  EXPECT_THAT(CompletionError(R"({"prompt":"a","suffix":"b"})"), HasSubstr("suffix: is not supported"));
  EXPECT_THAT(CompletionError(R"({"prompt":"a","best_of":2})"), HasSubstr("best_of: is not supported"));
  EXPECT_EQ(CompletionError(R"({"prompt":"a","best_of":2,"n":2,"echo":false})"), "");
  EXPECT_EQ(CompletionError(R"({"prompt":"a","logprobs":21})"), "logprobs: is 21, expected an integer from 0 to 20");
}

}  // namespace
}  // namespace kvern::server
