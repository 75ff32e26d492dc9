// Completions and chat answers over an engine whose model costs nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "server/openai/answer_format.h"
#include "tests/support/api_harness.h"
#include "tests/support/fake_engine.h"

namespace kvern::server {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

class AnswerTest : public ::testing::Test {
 protected:
  AnswerTest() : options_(FakeEngineOptions()) {}
  void Start() { Use(MakeFakeEngine(options_)); }
  void StartGated() { Use(GatedEngine(options_, gate_)); }
  void Use(FakeEngine fake) {
    fake_ = std::move(fake);
    api_ = std::make_unique<Api>(api_options_, nullptr);
    ServedModel model = {.engine = *fake_.engine, .id = "fake-model"};
    // "system: a" + "user: b" becomes "ab", and "x" begins the answer.
    model.render_chat = [](const Conversation& chat) -> Result<std::string> {
      std::string text;
      for (const Json& message : chat.messages) {
        if (message.at("role") == "robot") return Status::InvalidArgument("line 1: no robots");
        text += message.at("content").get<std::string>();
      }
      return text + (chat.adds_generation_prompt ? "x" : "");
    };
    api_->SetModel(std::move(model));
  }
  HttpRequest Post(const char* path, const std::string& body) const { return MakeRequest("POST", path, body); }
  HttpResponse Complete(const std::string& body) { return Call(*api_, Post("/v1/completions", body)); }
  HttpResponse Chat(const std::string& body) { return Call(*api_, Post("/v1/chat/completions", body)); }

  EngineOptions options_;
  ApiOptions api_options_;
  Gate gate_;
  FakeEngine fake_;
  std::unique_ptr<Api> api_;
};

// The text of the greedy answer to a prompt of letters.
std::string GreedyText(const std::string& prompt, size_t num_tokens) {
  const FakeTokenizer tokenizer;
  StreamDecoder decoder(tokenizer, /*render_special=*/true);
  std::string text;
  for (const TokenId token : FakeGreedyAnswer(tokenizer.Encode(prompt, {}).value(), num_tokens)) {
    text += decoder.Push(token);
  }
  return text + decoder.Finish();
}

Json ErrorOf(const HttpResponse& response) { return JsonOf(response).at("error"); }

TEST(DivergenceJsonTest, TheTextOfAnotherTenantIsNull) {
  const FakeTokenizer tokenizer;
  PromptDivergence divergence = {.position = 33, .block_begin = 32, .tokens = {1, 2, 3}, .prompt = {1, 4}};

  EXPECT_EQ(DivergenceJson(divergence, tokenizer), Json({{"position", 33}, {"cached", "bc"}, {"prompt", "d"}}));
  divergence.tokens = {};
  EXPECT_EQ(DivergenceJson(divergence, tokenizer), Json({{"position", 33}, {"cached", nullptr}, {"prompt", "d"}}));
  EXPECT_TRUE(DivergenceJson(std::nullopt, tokenizer).is_null());
}

TEST_F(AnswerTest, AGeneratedAnswerIsGoneOnFromByItsIds) {
  options_.cache.reuses_prefixes = true;
  Start();
  const Json first = JsonOf(Complete(R"({"prompt":"abc","max_tokens":6,"temperature":0,"ignore_eos":true})"));
  Json next = {{"prompt", "abc" + first.at("choices")[0].at("text").get<std::string>() + "de"},
               {"max_tokens", 1},
               {"reuse_generated", true}};

  const Json second = JsonOf(Complete(DumpJson(next)));

  // The text of an answer may be none that a tokenizer can read; its ids are what was generated.
  std::vector<TokenId> ids = FakeTokenizer().Encode("abc", {}).value();
  const std::vector<TokenId> answer = FakeGreedyAnswer(ids, 6);
  ids.insert(ids.end(), answer.begin(), answer.end());
  const std::vector<TokenId> rest = FakeTokenizer().Encode("de", {}).value();
  ids.insert(ids.end(), rest.begin(), rest.end());
  EXPECT_EQ(second.at("prompt_token_ids"), Json(ids));
  EXPECT_EQ(second.at("reused_ids"), 9);
  EXPECT_EQ(second.at("usage").at("prompt_tokens_details").at("cached_tokens"), 8);
}

TEST_F(AnswerTest, IdsAreToldOnlyWhereTheyAreAskedFor) {
  Start();

  EXPECT_FALSE(JsonOf(Complete(R"({"prompt":"abc","max_tokens":1})")).contains("prompt_token_ids"));
}

TEST_F(AnswerTest, ACompletionIsThatOfTheEngine) {
  Start();

  const HttpResponse response = Complete(R"({"model":"fake-model","prompt":"abc","max_tokens":8,"temperature":0})");

  EXPECT_EQ(response.status, 200u);
  const Json body = JsonOf(response);
  EXPECT_THAT(body.at("id").get<std::string>(), MatchesRegex("cmpl-[0-9a-f]+"));
  EXPECT_EQ(body.at("object"), "text_completion");
  EXPECT_EQ(body.at("model"), "fake-model");
  EXPECT_EQ(body.at("choices").at(0).at("text"), GreedyText("abc", 8));
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_TRUE(body.at("choices").at(0).at("logprobs").is_null());
  EXPECT_EQ(
      DumpJson(body.at("usage")),
      R"({"prompt_tokens":3,"completion_tokens":8,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":0}})");
  EXPECT_EQ(body.at("timings").at("predicted_n"), 8);
  EXPECT_EQ(body.at("timings").at("prompt_n"), 3);
}

TEST_F(AnswerTest, ACompletionHasSixteenTokensUnlessAsked) {
  Start();
  EXPECT_EQ(JsonOf(Complete(R"({"prompt":[1,2]})")).at("usage").at("completion_tokens"), 16);
}

TEST_F(AnswerTest, AStreamCarriesTheSameText) {
  Start();

  const HttpResponse response = Complete(
      R"({"prompt":"abc","max_tokens":8,"temperature":0,"stream":true,"stream_options":{"include_usage":true}})");

  EXPECT_EQ(HeaderOf(response, "Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(HeaderOf(response, "X-Accel-Buffering"), "no");
  const std::vector<Json> events = EventsOf(response);
  ASSERT_GE(events.size(), 4u);
  std::string text;
  for (size_t i = 0; i + 2 < events.size(); ++i) {
    text += events[i].at("choices").at(0).at("text");
    EXPECT_EQ(events[i].at("id"), events[0].at("id"));
    EXPECT_TRUE(events[i].at("usage").is_null());
  }
  EXPECT_EQ(text, GreedyText("abc", 8));
  const Json& last = events[events.size() - 3];
  EXPECT_EQ(last.at("choices").at(0).at("finish_reason"), "length");
  EXPECT_EQ(last.at("timings").at("predicted_n"), 8);
  EXPECT_THAT(events[events.size() - 2].at("choices"), SizeIs(0));
  EXPECT_EQ(events[events.size() - 2].at("usage").at("total_tokens"), 11);
  EXPECT_EQ(events.back(), "[DONE]");
}

TEST_F(AnswerTest, AChatIsRenderedByTheTemplate) {
  Start();
  const std::string messages = R"("messages":[{"role":"system","content":"a"},{"role":"user","content":"b"}])";

  const Json body = JsonOf(Chat("{" + messages + R"(,"max_tokens":8,"temperature":0})"));
  const HttpResponse rendered = Call(*api_, Post("/apply-template", "{" + messages + "}"));

  EXPECT_THAT(body.at("id").get<std::string>(), MatchesRegex("chatcmpl-[0-9a-f]+"));
  EXPECT_EQ(body.at("object"), "chat.completion");
  EXPECT_EQ(body.at("choices").at(0).at("message").at("role"), "assistant");
  EXPECT_EQ(body.at("choices").at(0).at("message").at("content"), GreedyText("abx", 8));
  EXPECT_EQ(rendered.body, R"({"prompt":"abx"})");
}

TEST_F(AnswerTest, AChatStreamBeginsWithTheRoleAndEndsWithTheReason) {
  Start();

  const std::vector<Json> events = EventsOf(
      Chat(R"({"messages":[{"role":"user","content":"b"}],"max_completion_tokens":4,"temperature":0,"stream":true})"));

  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events[0].at("object"), "chat.completion.chunk");
  EXPECT_EQ(DumpJson(events[0].at("choices").at(0).at("delta")), R"({"role":"assistant","content":""})");
  EXPECT_TRUE(events[0].at("choices").at(0).at("finish_reason").is_null());
  EXPECT_FALSE(events[0].contains("usage"));
  std::string text;
  for (size_t i = 1; i + 2 < events.size(); ++i) text += events[i].at("choices").at(0).at("delta").at("content");
  EXPECT_EQ(text, GreedyText("bx", 4));
  const Json& last = events[events.size() - 2].at("choices").at(0);
  EXPECT_EQ(DumpJson(last.at("delta")), "{}");
  EXPECT_EQ(last.at("finish_reason"), "length");
}

TEST_F(AnswerTest, ATemplateThatRefusesIsTheClientsError) {
  Start();

  const HttpResponse response = Chat(R"({"messages":[{"role":"robot","content":"b"}]})");

  EXPECT_EQ(response.status, 400u);
  EXPECT_EQ(ErrorOf(response).at("message"), "messages: line 1: no robots");
  EXPECT_EQ(ErrorOf(response).at("param"), "messages");
}

TEST_F(AnswerTest, AModelWithoutTemplateOrToolsSaysSo) {
  Start();
  const std::string messages = R"("messages":[{"role":"user","content":"b"}])";
  EXPECT_EQ(ErrorOf(Chat("{" + messages + R"(,"tools":[{"type":"function"}]})")).at("param"), "tools");

  api_ = std::make_unique<Api>(api_options_, nullptr);
  api_->SetModel({.engine = *fake_.engine, .id = "base"});

  const HttpResponse response = Chat("{" + messages + "}");
  EXPECT_EQ(response.status, 400u);
  EXPECT_EQ(ErrorOf(response).at("code"), "no_chat_template");
}

TEST_F(AnswerTest, AStopStringEndsTheAnswerBeforeIt) {
  Start();
  const std::string text = GreedyText("abc", 8);
  const std::string stop = text.substr(text.size() / 2);

  const Json choice =
      JsonOf(Complete(R"({"prompt":"abc","max_tokens":8,"temperature":0,"stop":")" + stop + "\"}")).at("choices").at(0);

  EXPECT_EQ(choice.at("text"), text.substr(0, text.find(stop)));
  EXPECT_EQ(choice.at("finish_reason"), "stop");
}

TEST_F(AnswerTest, SeveralPromptsWithSeveralAnswersAreNumberedThrough) {
  Start();

  const Json body = JsonOf(Complete(R"({"prompt":["abc",[4,5]],"n":2,"seed":3,"max_tokens":6})"));
  const Json alone = JsonOf(Complete(R"({"prompt":[4,5],"n":2,"seed":3,"max_tokens":6})"));

  ASSERT_THAT(body.at("choices"), SizeIs(4));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(body.at("choices").at(i).at("index"), i);
  EXPECT_NE(body.at("choices").at(0).at("text"), body.at("choices").at(1).at("text"));
  EXPECT_EQ(body.at("choices").at(2).at("text"), alone.at("choices").at(0).at("text"));
  EXPECT_EQ(body.at("choices").at(3).at("text"), alone.at("choices").at(1).at("text"));
  EXPECT_EQ(body.at("usage").at("prompt_tokens"), 5);  // Each prompt once.
  EXPECT_EQ(body.at("usage").at("completion_tokens"), 24);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens"), 0);
}

TEST_F(AnswerTest, StreamedChoicesAreThoseOfTheWholeAnswer) {
  Start();
  const std::string body = R"({"prompt":"abc","n":3,"seed":5,"max_tokens":10)";

  const Json whole = JsonOf(Complete(body + "}"));
  std::map<int, std::string> texts;
  for (const Json& event : EventsOf(Complete(body + R"(,"stream":true})"))) {
    if (!event.is_object()) continue;
    const Json& choice = event.at("choices").at(0);
    texts[choice.at("index").get<int>()] += choice.at("text");
  }

  ASSERT_THAT(texts, SizeIs(3));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(texts[i], whole.at("choices").at(i).at("text"));
}

TEST_F(AnswerTest, WithoutASeedAnswersDiffer) {
  Start();
  const std::string body = R"({"prompt":"abc","max_tokens":30})";
  EXPECT_NE(JsonOf(Complete(body)).at("choices"), JsonOf(Complete(body)).at("choices"));
}

TEST_F(AnswerTest, LogProbabilitiesOfACompletion) {
  Start();

  const Json logprobs = JsonOf(Complete(R"({"prompt":"abc","max_tokens":3,"temperature":0,"logprobs":2})"))
                            .at("choices")
                            .at(0)
                            .at("logprobs");

  const std::vector<TokenId> answer = FakeGreedyAnswer({1, 2, 3}, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(logprobs.at("tokens").at(i), FakeTokenizer().TokenBytes(answer[static_cast<size_t>(i)], true));
    const double logprob = logprobs.at("token_logprobs").at(i);
    EXPECT_LT(logprob, 0);
    EXPECT_THAT(logprobs.at("top_logprobs").at(i), SizeIs(2));
    EXPECT_EQ(logprobs.at("top_logprobs").at(i).begin().value(), logprob);  // Greedy: the best is the one drawn.
  }
  EXPECT_EQ(logprobs.at("text_offset").at(0), 0);
}

TEST_F(AnswerTest, LogProbabilitiesOfAChat) {
  Start();

  const Json content =
      JsonOf(
          Chat(
              R"({"messages":[{"role":"user","content":"b"}],"max_tokens":2,"temperature":0,"logprobs":true,"top_logprobs":3})"))
          .at("choices")
          .at(0)
          .at("logprobs")
          .at("content");

  ASSERT_THAT(content, SizeIs(2));
  EXPECT_THAT(content.at(0).at("top_logprobs"), SizeIs(3));
  EXPECT_EQ(content.at(0).at("top_logprobs").at(0).at("logprob"), content.at(0).at("logprob"));
  std::string bytes;
  for (const Json& byte : content.at(0).at("bytes")) bytes += static_cast<char>(byte.get<int>());
  EXPECT_EQ(bytes, content.at(0).at("token"));
}

TEST_F(AnswerTest, AClientThatReadsLateGetsLogProbabilitiesInPieces) {
  Start();
  HttpReply reply = Begin(*api_, Post("/v1/chat/completions",
                                      R"({"messages":[{"role":"user","content":"b"}],"max_tokens":100,"temperature":0,
                                          "logprobs":true,"top_logprobs":20,"stream":true})"));
  while (fake_.engine->Stats().steps < 100 || fake_.engine->Stats().running_sequences > 0) std::this_thread::yield();

  size_t num_tokens = 0, num_pieces = 0;
  HttpResponse piece;
  for (bool is_done = false; !is_done; ++num_pieces) {
    piece.body.clear();
    is_done = reply.source->Read(piece);
    EXPECT_LT(piece.body.size(), 24'000u);  // A piece, and the token with which it is one.
    for (const Json& event : EventsOf(piece)) {
      if (!event.is_object() || event.at("choices").at(0).at("logprobs").is_null()) continue;
      num_tokens += event.at("choices").at(0).at("logprobs").at("content").size();
    }
  }

  EXPECT_EQ(num_tokens, 100u);
  EXPECT_GT(num_pieces, 4u);
}

TEST_F(AnswerTest, StreamedLogProbabilitiesAreThoseOfTheWholeAnswer) {
  Start();
  const std::string body = R"({"prompt":"abc","n":2,"seed":5,"max_tokens":10,"logprobs":3)";

  const Json whole = JsonOf(Complete(body + "}"));
  std::map<int, Json> lists;
  for (const Json& event : EventsOf(Complete(body + R"(,"stream":true})"))) {
    if (!event.is_object() || event.at("choices").at(0).at("logprobs").is_null()) continue;
    Json& list = lists[event.at("choices").at(0).at("index").get<int>()];
    for (const auto& [name, values] : event.at("choices").at(0).at("logprobs").items()) {
      for (const Json& value : values) list[name].push_back(value);
    }
  }

  ASSERT_THAT(lists, SizeIs(2));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(lists[i], whole.at("choices").at(i).at("logprobs"));
}

TEST_F(AnswerTest, AModelThatIsNotThereIsNotFound) {
  Start();

  const HttpResponse response = Complete(R"({"model":"gpt-9","prompt":"abc"})");

  EXPECT_EQ(response.status, 404u);
  EXPECT_EQ(ErrorOf(response).at("code"), "model_not_found");
  EXPECT_EQ(ErrorOf(response).at("param"), "model");
}

TEST_F(AnswerTest, PromptsBeyondTheContextSaySo) {
  Start();

  const Json few = ErrorOf(Complete(R"({"prompt":")" + std::string(257, 'a') + "\"}"));
  const Json huge = ErrorOf(Complete(R"({"prompt":["a",")" + std::string(10u << 20, 'a') + "\"]}"));

  EXPECT_EQ(few.at("message"), "prompt: has 257 tokens, more than the context of 256");
  EXPECT_EQ(few.at("code"), "context_length_exceeded");
  EXPECT_THAT(huge.at("message").get<std::string>(), HasSubstr("prompt[1]: is a text of 10485760 bytes"));
  EXPECT_EQ(huge.at("param"), "prompt[1]");
}

TEST_F(AnswerTest, WhatTheEngineRefusesNamesTheField) {
  Start();
  const auto error = [&](const char* body) { return ErrorOf(Complete(body)); };

  EXPECT_EQ(error(R"({"prompt":[1,64]})").at("param"), "prompt");
  EXPECT_EQ(error(R"({"prompt":[[1],[]]})").at("message"), "prompt[1]: has no tokens, expected at least one");
  EXPECT_EQ(error(R"({"prompt":""})").at("param"), "prompt");
  EXPECT_EQ(error(R"({"prompt":"a","logit_bias":{"64":1}})").at("param"), "logit_bias");
  EXPECT_EQ(error(R"({"prompt":"a","n":33})").at("param"), "n");
}

TEST_F(AnswerTest, AFullQueueAsksToComeAgain) {
  options_.max_sequences = 1;
  options_.max_queued = 1;
  StartGated();
  const HttpRequest request = Post("/v1/completions", R"({"prompt":"abc","max_tokens":2})");
  HttpReply first = Begin(*api_, request), second = Begin(*api_, request);

  const HttpResponse third = Call(*api_, request);

  EXPECT_EQ(third.status, 429u);
  EXPECT_EQ(HeaderOf(third, "Retry-After"), "1");
  EXPECT_EQ(ErrorOf(third).at("code"), "queue_full");
  gate_.Open();
  EXPECT_EQ(Finish(std::move(first)).status, 200u);
  EXPECT_EQ(Finish(std::move(second)).status, 200u);
}

TEST_F(AnswerTest, ATenantHasItsShareOfRequests) {
  api_options_.max_requests_per_tenant = 1;
  StartGated();
  const HttpRequest request = Post("/v1/completions", R"({"prompt":"abc","max_tokens":2})");
  HttpReply first = Begin(*api_, request);

  EXPECT_EQ(Call(*api_, request).status, 429u);
  gate_.Open();
  EXPECT_EQ(Finish(std::move(first)).status, 200u);
  EXPECT_EQ(Call(*api_, request).status, 200u);
}

TEST_F(AnswerTest, AnswersOfOneRequestAreCountedForTheTenant) {
  api_options_.max_requests_per_tenant = 3;
  Start();

  EXPECT_EQ(Complete(R"({"prompt":"abc","n":3,"max_tokens":2})").status, 200u);
  const HttpResponse many = Complete(R"({"prompt":["abc","abd"],"n":2,"max_tokens":2})");

  EXPECT_EQ(many.status, 400u);
  EXPECT_EQ(ErrorOf(many).at("message"), "the request is for 4 answers, limit 3");
}

// What is cached may be another's where tenants share a cache: then only the position is told.
TEST_F(AnswerTest, TheTextOfOthersIsNotTold) {
  options_.cache.reuses_prefixes = true;
  api_options_.keys = ApiKeys::Parse(
                          "ann ann-secret cache=both\nben bens-secret cache=both\ncid cids-secret\n"
                          "dan dans-secret admin\n",
                          "keys")
                          .value();
  Start();
  const auto complete = [&](const char* key, const std::string& prompt) {
    return JsonOf(Call(*api_, MakeRequest("POST", "/v1/completions",
                                          DumpJson({{"prompt", prompt}, {"max_tokens", 1}, {"temperature", 0}}),
                                          {{"x-api-key", key}})));
  };
  const std::string begin(40, 'a');
  complete("ann-secret", begin + std::string(20, 'b'));
  complete("cids-secret", begin + std::string(20, 'b'));

  const Json of_group = complete("bens-secret", begin + std::string(20, 'c')).at("timings");
  const Json of_one = complete("cids-secret", begin + std::string(20, 'c')).at("timings");
  const Json listed =
      JsonOf(Call(*api_, MakeRequest("GET", "/v1/cache/requests", "", {{"x-api-key", "dans-secret"}}))).at("data");

  EXPECT_EQ(of_group.at("cache_n"), 40);
  EXPECT_EQ(of_group.at("divergence").at("position"), 40);
  EXPECT_TRUE(of_group.at("divergence").at("cached").is_null());
  EXPECT_EQ(of_group.at("divergence").at("prompt").get<std::string>().at(0), 'c');
  EXPECT_EQ(of_one.at("divergence").at("cached").get<std::string>().at(0), 'b');
  ASSERT_THAT(listed, SizeIs(4));
  EXPECT_EQ(listed[0].at("divergence").at("position"), 40);
  EXPECT_TRUE(listed[0].at("divergence").at("cached").is_null());
  EXPECT_TRUE(listed[0].at("divergence").at("prompt").is_null());
}

TEST_F(AnswerTest, ADroppedReplyCancelsItsRequest) {
  StartGated();
  {
    const HttpReply reply = Begin(*api_, Post("/v1/completions", R"({"prompt":"abc","max_tokens":90,"n":2})"));
    gate_.AwaitArrival();
  }
  gate_.Open();

  // The engine serves the next one after it has let go of the first.
  EXPECT_EQ(JsonOf(Complete(R"({"prompt":"abc","max_tokens":1})")).at("usage").at("completion_tokens"), 1);
  EXPECT_EQ(fake_.engine->Stats().running_sequences, 0u);
  EXPECT_LT(fake_.engine->Stats().tokens_computed, 20u);
}

TEST_F(AnswerTest, ARequestThatEndsBeforeItsFirstTokenHasItsPromptInTheRecord) {
  StartGated();
  {
    HttpReply reply = Begin(*api_, Post("/v1/completions", R"({"prompt":["abc",[4,5]],"max_tokens":90,"n":2})"));
    gate_.AwaitArrival();
    reply.source.reset();
    reply.on_end({.status = 200, .is_complete = false});
  }

  const Json record = JsonOf(Call(*api_, MakeRequest("GET", "/v1/cache/requests"))).at("data").at(0);
  const std::string metrics = Call(*api_, MakeRequest("GET", "/metrics")).body;
  gate_.Open();

  EXPECT_EQ(record.at("prompt_tokens"), 5);
  EXPECT_EQ(record.at("cached_tokens"), 0);
  EXPECT_THAT(metrics, HasSubstr("kvern_prompt_tokens_total 5\n"));
  EXPECT_THAT(metrics, HasSubstr("kvern_requests_cancelled_total 1\n"));
  EXPECT_THAT(metrics, HasSubstr("kvern_queue_seconds_count 0\n"));  // Nobody knows how long it would have waited.
}

TEST_F(AnswerTest, AStreamThatIsStoppedEndsWithAnError) {
  StartGated();
  HttpReply reply = Begin(*api_, Post("/v1/completions", R"({"prompt":"abc","max_tokens":200,"stream":true})"));
  gate_.AwaitArrival();

  reply.source->Stop();
  gate_.Open();
  const std::vector<Json> events = EventsOf(Finish(std::move(reply)));

  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().at("error").at("code"), "shutting_down");
}

TEST_F(AnswerTest, AFailedPassIsAnErrorOfTheServer) {
  Use(MakeFakeEngine(options_, [](FakeModel& model) {
    model.on_forward = [](const ForwardBatch&) { return Status::Corruption("the model is broken"); };
  }));

  const HttpResponse whole = Complete(R"({"prompt":"abc"})");
  const std::vector<Json> events = EventsOf(Complete(R"({"prompt":"abc","stream":true})"));

  EXPECT_EQ(whole.status, 500u);
  EXPECT_THAT(ErrorOf(whole).at("message").get<std::string>(), HasSubstr("the model is broken"));
  EXPECT_EQ(HeaderOf(whole, "X-Request-Id").size(), 32u);
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].at("error").at("type"), "server_error");
}

TEST_F(AnswerTest, ZeroTokensOnlyFillTheCache) {
  Start();

  const Json body = JsonOf(Complete(R"({"prompt":"abc","max_tokens":0})"));

  EXPECT_EQ(body.at("choices").at(0).at("text"), "");
  EXPECT_EQ(body.at("choices").at(0).at("finish_reason"), "length");
}

}  // namespace
}  // namespace kvern::server
