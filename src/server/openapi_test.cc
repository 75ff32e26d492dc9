// docs/openapi.json against the routes and fields of the server. Runs in the root of the repository.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "server/http_format.h"
#include "server/openai/requests.h"
#include "tests/support/api_harness.h"
#include "tests/support/fake_engine.h"

namespace kvern::server {
namespace {

class OpenApiTest : public ::testing::Test {
 protected:
  OpenApiTest() {
    std::ifstream file("docs/openapi.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    document_ = ParseJson(text).value();
  }
  // The fields of a request, those that are refused included.
  std::set<std::string> FieldsOf(const char* schema_name) const {
    const Json& schema = document_.at("components").at("schemas").at(schema_name);
    std::set<std::string> names;
    for (const auto& [name, field] : schema.at("properties").items()) names.insert(name);
    if (schema.contains("x-unsupported")) {
      for (const Json& name : schema.at("x-unsupported")) names.insert(name.get<std::string>());
    }
    return names;
  }
  Json document_;
};

// Those of the body itself: "n", and not "messages[0].role".
std::set<std::string> TopLevel(const std::set<std::string>& names) {
  std::set<std::string> top;
  for (const std::string& name : names) {
    if (name.find_first_of(".[") == std::string::npos) top.insert(name);
  }
  return top;
}

TEST_F(OpenApiTest, HasTheRoutesOfTheServer) {
  std::set<std::string> documented, served;
  for (const auto& [path, methods] : document_.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) documented.insert(method + " " + path);
  }
  for (const Route& route : AllRoutes()) {
    served.insert(LowerCase(route.method) + " " + std::string(route.path));
  }

  EXPECT_EQ(documented, served);
}

TEST_F(OpenApiTest, HasTheFieldsOfTheRequests) {
  const auto read = [](auto function) {
    std::set<std::string> names;
    FieldErrors errors;
    errors.names_read = &names;
    function(Json::object(), errors);
    return TopLevel(names);
  };

  EXPECT_EQ(FieldsOf("ChatRequest"), read(ReadChatRequest));
  EXPECT_EQ(FieldsOf("CompletionRequest"), read(ReadCompletionRequest));
  EXPECT_EQ(FieldsOf("TemplateRequest"), read([](const Json& body, FieldErrors& errors) {
              FieldReader fields(body, "", errors);
              ChatRequest request;
              ReadConversation(fields, request);
            }));
}

TEST_F(OpenApiTest, HasTheFieldsOfReplies) {
  const FakeEngine fake = MakeFakeEngine(FakeEngineOptions());
  Api api({}, nullptr);
  api.SetModel({.engine = *fake.engine, .id = "fake-model"});
  const auto check = [&](const char* schema_name, const Json& reply) {
    std::set<std::string> names;
    for (const auto& [name, field] : reply.items()) names.insert(name);
    EXPECT_EQ(names, FieldsOf(schema_name)) << schema_name;
  };

  const Json completion =
      JsonOf(Call(api, MakeRequest("POST", "/v1/completions", R"({"prompt":"abc","reuse_generated":true})")));
  check("Completion", completion);
  check("Usage", completion.at("usage"));
  check("Timings", completion.at("timings"));
  check("Model", JsonOf(Call(api, MakeRequest("GET", "/v1/models/fake-model"))));
  check("Error", JsonOf(Call(api, MakeRequest("GET", "/nothing"))));
}

}  // namespace
}  // namespace kvern::server
