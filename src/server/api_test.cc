#include "server/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/api_harness.h"
#include "tests/support/fake_engine.h"

namespace kvern::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

class ApiTest : public ::testing::Test {
 protected:
  // Serves a fake model. Options are those set before.
  Api& Ready() {
    Api& api = Loading();
    fake_ = MakeFakeEngine(FakeEngineOptions());
    api.SetModel({.engine = *fake_.engine, .id = "fake-model", .created_s = 123});
    return api;
  }
  // The same while the model loads.
  Api& Loading() {
    api_ = std::make_unique<Api>(options_, nullptr);
    return *api_;
  }
  void UseKeys(const std::string& text) { options_.keys = ApiKeys::Parse(text, "keys").value(); }

  ApiOptions options_;
  FakeEngine fake_;
  std::unique_ptr<Api> api_;
};

std::string ErrorField(const HttpResponse& response, const char* name) {
  const Json error = JsonOf(response).at("error");
  return error.at(name).is_null() ? "null" : error.at(name).get<std::string>();
}

TEST_F(ApiTest, HealthSaysWhetherTheModelIsThere) {
  const HttpResponse before = Call(Loading(), MakeRequest("GET", "/health"));
  const HttpResponse after = Call(Ready(), MakeRequest("GET", "/v1/health"));

  EXPECT_EQ(before.status, 503u);
  EXPECT_EQ(ErrorField(before, "message"), "Loading model");
  EXPECT_EQ(ErrorField(before, "type"), "unavailable_error");
  EXPECT_EQ(HeaderOf(before, "Retry-After"), "2");
  EXPECT_EQ(after.status, 200u);
  EXPECT_EQ(after.body, R"({"status":"ok"})");
}

TEST_F(ApiTest, RoutesThatNeedTheModelWaitForIt) {
  Api& api = Loading();
  for (const Route& route : AllRoutes()) {
    if (route.access != RouteAccess::kTenant) continue;
    EXPECT_EQ(Call(api, MakeRequest(std::string(route.method), std::string(route.path), "{}")).status, 503u)
        << route.path;
  }
  EXPECT_EQ(Call(api, MakeRequest("GET", "/metrics")).status, 200u);
}

TEST_F(ApiTest, ModelsAreListedAndShown) {
  Api& api = Ready();

  const Json list = JsonOf(Call(api, MakeRequest("GET", "/v1/models")));
  const Json one = JsonOf(Call(api, MakeRequest("GET", "/v1/models/fake-model")));
  const HttpResponse other = Call(api, MakeRequest("GET", "/v1/models/gpt-9"));
  EXPECT_EQ(JsonOf(Call(api, MakeRequest("GET", "/v1/models/fake%2Dmodel"))), one);

  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(list.at("data").at(0), one);
  EXPECT_EQ(one.at("id"), "fake-model");
  EXPECT_EQ(one.at("object"), "model");
  EXPECT_EQ(one.at("created"), 123);
  EXPECT_EQ(one.at("meta").at("n_vocab"), 64);
  EXPECT_EQ(other.status, 404u);
  EXPECT_EQ(ErrorField(other, "code"), "model_not_found");
}

TEST_F(ApiTest, UnknownPathsAndMethodsSaySo) {
  Api& api = Ready();

  const HttpResponse path = Call(api, MakeRequest("GET", "/v2/models"));
  const HttpResponse method = Call(api, MakeRequest("DELETE", "/v1/models"));

  EXPECT_EQ(path.status, 404u);
  EXPECT_EQ(ErrorField(path, "type"), "not_found_error");
  EXPECT_EQ(method.status, 405u);
  EXPECT_EQ(HeaderOf(method, "Allow"), "GET");
  EXPECT_EQ(Call(api, MakeRequest("GET", "/v1/models/")).status, 404u);
  EXPECT_EQ(Call(api, MakeRequest("GET", "")).status, 404u);
  EXPECT_EQ(Call(api, MakeRequest("HEAD", "/health")).status, 200u);
}

TEST_F(ApiTest, KeysOpenTheRoutes) {
  UseKeys("alice alice-secret\nroot root-secret admin\n");
  Api& api = Ready();
  const auto status = [&](const char* path, std::vector<HttpHeader> headers) {
    return Call(api, MakeRequest("GET", path, "", std::move(headers))).status;
  };

  EXPECT_EQ(status("/v1/models", {}), 401u);
  EXPECT_EQ(status("/v1/models", {{"authorization", "Bearer wrong"}}), 401u);
  EXPECT_EQ(status("/v1/models", {{"authorization", "Basic alice-secret"}}), 401u);
  EXPECT_EQ(status("/v1/models", {{"authorization", "Bearer alice-secret"}}), 200u);
  EXPECT_EQ(status("/v1/models", {{"authorization", "bearer alice-secret"}}), 200u);
  EXPECT_EQ(status("/v1/models", {{"x-api-key", "alice-secret"}}), 200u);
  EXPECT_EQ(status("/nothing", {}), 401u);  // Who has no key learns nothing.
  EXPECT_EQ(status("/health", {}), 200u);
  EXPECT_EQ(status("/metrics", {{"x-api-key", "alice-secret"}}), 403u);
  EXPECT_EQ(status("/v1/cache", {{"x-api-key", "alice-secret"}}), 403u);
  EXPECT_EQ(status("/metrics", {{"x-api-key", "root-secret"}}), 200u);
  const HttpResponse refused = Call(api, MakeRequest("GET", "/v1/models"));
  EXPECT_EQ(ErrorField(refused, "type"), "authentication_error");
  EXPECT_EQ(ErrorField(refused, "code"), "invalid_api_key");
  EXPECT_EQ(HeaderOf(refused, "WWW-Authenticate"), "Bearer");
}

TEST_F(ApiTest, RequestIdsAreTakenOverOrMade) {
  Api& api = Ready();
  const auto id_of = [&](const char* given) {
    return HeaderOf(Call(api, MakeRequest("GET", "/health", "", {{"x-request-id", given}})), "X-Request-Id");
  };

  EXPECT_EQ(id_of("my-id_1.2"), "my-id_1.2");
  EXPECT_THAT(id_of(""), MatchesRegex("[0-9a-f]+"));
  EXPECT_THAT(id_of("a b"), MatchesRegex("[0-9a-f]+"));
  EXPECT_THAT(id_of(std::string(129, 'x').c_str()), MatchesRegex("[0-9a-f]+"));
}

TEST_F(ApiTest, PagesMayCallOnlyFromTheOriginThatIsNamed) {
  const HttpRequest from_page = MakeRequest("GET", "/health", "", {{"origin", "https://chat.example"}});
  const HttpRequest preflight = MakeRequest("OPTIONS", "/v1/models", "", {{"origin", "https://chat.example"}});
  Api& closed = Ready();
  EXPECT_THAT(HeaderOf(Call(closed, from_page), "Access-Control-Allow-Origin"), IsEmpty());
  EXPECT_EQ(Call(closed, preflight).status, 405u);

  options_.cors_origin = "https://chat.example";
  UseKeys("alice alice-secret\n");
  Api& open = Ready();

  EXPECT_EQ(HeaderOf(Call(open, from_page), "Access-Control-Allow-Origin"), "https://chat.example");
  const HttpResponse allowed = Call(open, preflight);
  EXPECT_EQ(allowed.status, 204u);
  EXPECT_THAT(HeaderOf(allowed, "Access-Control-Allow-Headers"), HasSubstr("authorization"));
  const HttpRequest other = MakeRequest("OPTIONS", "/v1/models", "", {{"origin", "https://evil.example"}});
  EXPECT_THAT(HeaderOf(Call(open, other), "Access-Control-Allow-Origin"), IsEmpty());
  EXPECT_EQ(HeaderOf(allowed, "X-Request-Id").size(), 32u);
}

// A form or a fetch without CORS comes without a preflight; its page cannot read the reply, but the work would be done.
TEST_F(ApiTest, PagesOfOtherSitesMakeTheServerDoNothing) {
  options_.cors_origin = "https://chat.example";
  Api& api = Ready();
  const auto status = [&](const char* method, const char* path, const char* origin, const char* site) {
    return Call(api, MakeRequest(method, path, R"({"prompt":"a"})", {{"origin", origin}, {"sec-fetch-site", site}}))
        .status;
  };

  EXPECT_EQ(status("POST", "/v1/completions", "https://evil.example", "cross-site"), 403u);
  EXPECT_EQ(status("POST", "/v1/completions", "http://localhost:3000", "same-site"), 403u);
  EXPECT_EQ(status("DELETE", "/v1/cache", "null", "cross-site"), 403u);
  EXPECT_EQ(status("POST", "/v1/completions", "https://chat.example", "cross-site"), 200u);
  EXPECT_EQ(status("POST", "/v1/completions", "https://proxy.example", "same-origin"), 200u);
  EXPECT_EQ(status("GET", "/v1/models", "", "cross-site"), 200u);  // A link to it.
}

TEST_F(ApiTest, OptionsThatCannotWorkAreRefused) {
  for (const char* origin :
       {"*", "https://chat.example/", "chat.example", "https://", "https://A.example", "https://a, https://b"}) {
    EXPECT_THAT((ApiOptions{.keys = {}, .cors_origin = origin}.Validate().message()), HasSubstr(origin));
  }
  for (const char* origin : {"", "https://chat.example", "http://localhost:3000", "app://kvern"}) {
    EXPECT_TRUE((ApiOptions{.keys = {}, .cors_origin = origin}.Validate().ok())) << origin;
  }
  EXPECT_FALSE((ApiOptions{.keys = {}, .cors_origin = "", .max_requests_per_tenant = 0}.Validate().ok()));
}

TEST_F(ApiTest, WhatIsNoRequestGetsAnErrorOfTheApi) {
  const HttpResponse response = Finish(Ready().Refuse({}, 431, "too long"));

  EXPECT_EQ(response.status, 431u);
  EXPECT_EQ(ErrorField(response, "message"), "too long");
  EXPECT_EQ(ErrorField(response, "param"), "null");
}

TEST_F(ApiTest, BodiesThatAreNoJsonAreRefusedByEveryRoute) {
  Api& api = Ready();
  for (const Route& route : AllRoutes()) {
    if (route.method != "POST") continue;
    for (const std::string& body : {std::string(), std::string("{"), std::string("\xff\xfe"), std::string("null"),
                                    std::string(100'000, '['), std::string("{\"a\":\0}", 7)}) {
      const HttpResponse response = Call(api, MakeRequest("POST", std::string(route.path), body));
      EXPECT_EQ(response.status, 400u) << route.path;
      EXPECT_THAT(ErrorField(response, "message"), HasSubstr("the body ")) << route.path;
    }
  }
}

TEST_F(ApiTest, TextBecomesTokensAndTokensText) {
  Api& api = Ready();
  const auto post = [&](const char* path, const std::string& body) {
    return Call(api, MakeRequest("POST", path, body));
  };

  EXPECT_EQ(post("/tokenize", R"({"content":"abc"})").body, R"({"tokens":[1,2,3]})");
  EXPECT_EQ(post("/tokenize", R"({"content":"a","with_pieces":true})").body, R"({"tokens":[{"id":1,"piece":"a"}]})");
  EXPECT_EQ(post("/detokenize", R"({"tokens":[1,27,28]})").body, R"({"content":"aé"})");
  EXPECT_EQ(ErrorField(post("/tokenize", "{}"), "param"), "content");
  EXPECT_EQ(ErrorField(post("/tokenize", R"({"content":"A"})"), "message"), "content: only letters");
  EXPECT_EQ(ErrorField(post("/detokenize", R"({"tokens":[1,64]})"), "message"),
            "tokens[1]: is 64, the vocabulary has 64 tokens");
  EXPECT_EQ(ErrorField(post("/detokenize", R"({"tokens":"x"})"), "param"), "tokens");
}

TEST_F(ApiTest, TextsBeyondTheContextAreNotLookedAt) {
  Api& api = Ready();  // A context of 256 tokens.
  std::string ids = "1";
  for (int i = 0; i < 50'000; ++i) ids += ",1";

  const HttpResponse text =
      Call(api, MakeRequest("POST", "/tokenize", R"({"content":")" + std::string(10u << 20, 'a') + "\"}"));
  const HttpResponse tokens = Call(api, MakeRequest("POST", "/detokenize", "{\"tokens\":[" + ids + "]}"));

  EXPECT_EQ(text.status, 400u);
  EXPECT_THAT(ErrorField(text, "message"), HasSubstr("content: is a text of 10485760 bytes"));
  EXPECT_EQ(ErrorField(text, "code"), "context_length_exceeded");
  EXPECT_THAT(ErrorField(tokens, "message"), HasSubstr("tokens: is a text of 50001 bytes"));
}

TEST_F(ApiTest, MetricsCountRequestsTokensAndBlocks) {
  Api& api = Ready();
  Call(api, MakeRequest("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":5})"));
  Call(api, MakeRequest("POST", "/v1/completions", "{}"));

  const std::string text = Call(api, MakeRequest("GET", "/metrics")).body;

  EXPECT_THAT(text, HasSubstr("kvern_requests_total{route=\"/v1/completions\",status=\"200\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvern_requests_total{route=\"/v1/completions\",status=\"400\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvern_prompt_tokens_total 3\n"));
  EXPECT_THAT(text, HasSubstr("kvern_generated_tokens_total 5\n"));
  EXPECT_THAT(text, HasSubstr("kvern_time_to_first_token_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("kvern_time_to_first_token_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("kvern_kv_blocks{state=\"free\"} 16\n"));
  EXPECT_THAT(text, HasSubstr("kvern_tokens_computed_total 7\n"));
}

TEST_F(ApiTest, TheCacheIsShown) {
  const Json cache = JsonOf(Call(Ready(), MakeRequest("GET", "/v1/cache")));

  EXPECT_EQ(cache.at("blocks").at("total"), 16);
  EXPECT_EQ(cache.at("blocks").at("free"), 16);
  EXPECT_EQ(cache.at("block_tokens"), 16);
  EXPECT_EQ(cache.at("sequences").at("running"), 0);
}

TEST_F(ApiTest, TheLastRequestsTellWhatTheCacheDidForThemAndItCanBeEmptied) {
  Api& api = Ready();
  Call(api, MakeRequest("POST", "/v1/completions", R"({"prompt":"abc","max_tokens":2})"));

  const Json list = JsonOf(Call(api, MakeRequest("GET", "/v1/cache/requests"))).at("data");
  const Json cleared = JsonOf(Call(api, MakeRequest("DELETE", "/v1/cache")));

  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].at("prompt_tokens"), 3);
  EXPECT_EQ(list[0].at("prompt_causes").at("first_time"), 3);
  EXPECT_TRUE(list[0].at("divergence").is_null());
  EXPECT_EQ(cleared.at("freed_bytes"), 0);  // This engine keeps nothing.
}

TEST(AccessLogTest, ALineHasNumbersAndNoPrompt) {
  RequestRecord record;
  record.id = "id";
  record.tenant = "alice";
  record.remote = "127.0.0.1";
  record.method = "POST";
  record.path = "/v1/completions";
  record.generates = true;
  record.prompt_tokens = 7;
  record.generated_tokens = 3;
  record.finish_reason = "stop";

  const std::string line = AccessLogLine(
      record, {.status = 200, .num_bytes = 10, .is_complete = true, .duration = std::chrono::microseconds(1500)},
      /*unix_ms=*/784111777123);

  const Json json = ParseJson(line).value();
  EXPECT_EQ(json.at("time"), "1994-11-06T08:49:37.123Z");
  EXPECT_EQ(json.at("duration_ms"), 1.5);
  EXPECT_EQ(json.at("prompt_tokens"), 7);
  EXPECT_FALSE(json.contains("prompt"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST(AccessLogTest, WhatClientsPutIntoALineStaysInIt) {
  RequestRecord record;
  record.path = "/a\"b\n\xff";
  record.error = std::string(100'000, 'x');

  const std::string line = AccessLogLine(record, {.status = 404}, /*unix_ms=*/0);

  EXPECT_EQ(ParseJson(line).value().at("path"), "/a\"b\n\xef\xbf\xbd");
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_LT(line.size(), 2000u);
}

TEST(AccessLogTest, AFileThatCannotBeWrittenIsAnError) {
  EXPECT_THAT(AccessLog::Open("/no/such/directory/log").status().message(),
              HasSubstr("/no/such/directory/log cannot be written"));
}

TEST(AccessLogTest, AFullDiskIsSaidOnceAndStopsNothing) {
  const auto log = AccessLog::Open("/dev/full").value();

  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) log->Write({}, {});

  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "kvern: warning: the access log /dev/full cannot be written, lines are lost: No space left on device\n");
}

}  // namespace
}  // namespace kvern::server
