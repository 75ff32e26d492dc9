// The client against HttpServer over loopback; what that never sends comes from a bare socket.
#include "server/http_client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "server/http_server.h"

namespace kvern::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseHttpUrlTest, HostPortAndPathAreTakenApart) {
  const HttpUrl plain = ParseHttpUrl("http://127.0.0.1:8080").value();
  EXPECT_EQ(plain.host, "127.0.0.1");
  EXPECT_EQ(plain.port, 8080);
  EXPECT_EQ(plain.path, "");

  const HttpUrl path = ParseHttpUrl("HTTP://localhost/some/base//").value();
  EXPECT_EQ(path.host, "localhost");
  EXPECT_EQ(path.port, 80);
  EXPECT_EQ(path.path, "/some/base");

  const HttpUrl v6 = ParseHttpUrl("[::1]:99/").value();
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.port, 99);
}

TEST(ParseHttpUrlTest, WhatIsNoAddressIsRefused) {
  EXPECT_EQ(ParseHttpUrl("https://host").status().code(), StatusCode::kUnsupported);
  for (const char* text : {"", "http://", "http://:80", "host:", "host:0", "host:65536", "host:8x", "[::1", "[::1]8",
                           "a b", "me@host", "host/?q", "host/#f"}) {
    EXPECT_EQ(ParseHttpUrl(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

// Events that the test lets go one by one; the reply ends with "end".
class EventSource : public ReplySource {
 public:
  struct State {
    std::mutex mutex;
    std::string pending;
    bool is_done = false;
    std::function<void()> wake;
    std::promise<void> begun;
    std::promise<void> gone;
  };
  explicit EventSource(State& state) : state_(state) {}
  ~EventSource() override {
    const std::lock_guard lock(state_.mutex);
    state_.wake = nullptr;
    state_.gone.set_value();
  }
  void OnReady(std::function<void()> wake) override {
    const std::lock_guard lock(state_.mutex);
    state_.wake = std::move(wake);
    state_.begun.set_value();
  }
  bool Read(HttpResponse& response) override {
    const std::lock_guard lock(state_.mutex);
    response.body += std::exchange(state_.pending, {});
    return state_.is_done;
  }
  void Stop() override {}

 private:
  State& state_;
};

void Push(EventSource::State& state, std::string text, bool ends) {
  const std::lock_guard lock(state.mutex);
  state.pending += text;
  state.is_done = ends;
  if (state.wake) state.wake();
}

// POST /echo gives its body and its header X-Test back; /stream is what the test pushes; everything else is not found.
class TestHandler : public HttpHandler {
 public:
  EventSource::State stream;

  std::optional<HttpReply> CheckHead(const HttpRequest&) override { return std::nullopt; }
  HttpReply Handle(HttpRequest request) override {
    HttpReply reply;
    if (request.path == "/base/stream") {
      reply.is_event_stream = true;
      reply.source = std::make_unique<EventSource>(stream);
    } else if (request.path == "/base/echo") {
      reply.response.headers = {{"X-Test", std::string(request.Header("x-test"))}};
      reply.response.body = request.body;
    } else {
      reply.response.status = 404;
      reply.response.headers = {{"X-Reason", request.path}};
    }
    return reply;
  }
  HttpReply Refuse(const HttpRequest&, unsigned status, const std::string& message) override {
    HttpReply reply;
    reply.response = {.status = status, .headers = {}, .body = message};
    return reply;
  }
};

// The value of the header `name`, in small letters; "" where there is none.
std::string HeaderOf(const HttpResponse& reply, std::string_view name) {
  for (const HttpHeader& header : reply.headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

// Tells the test what has come.
class TestSink : public ReplySink {
 public:
  struct State {
    std::atomic<unsigned> status = 0;
    std::string body;
    std::promise<std::string> first_piece;
    std::promise<Status> end;
  };
  explicit TestSink(State& state) : state_(state) {}
  void OnHead(const HttpResponse& head) override { state_.status = head.status; }
  void OnBody(std::string_view bytes) override {
    if (state_.body.empty()) state_.first_piece.set_value(std::string(bytes));
    state_.body += bytes;
  }
  void OnEnd(const Status& status) override { state_.end.set_value(status); }

 private:
  State& state_;
};

class HttpClientTest : public ::testing::Test {
 protected:
  HttpClientTest() {
    HttpServerOptions options;
    options.port = 0;
    server_ = HttpServer::Start(options, handler_).value();
    client_ = HttpClient::Create(UrlOf(server_->port())).value();
  }
  static HttpUrl UrlOf(uint16_t port) { return {.host = "127.0.0.1", .port = port, .path = "/base"}; }
  Result<HttpResponse> Post(const std::string& path, const std::string& body) {
    return client_->Ask({.method = "POST", .path = path, .headers = {{"X-Test", "yes"}}, .body = body});
  }

  TestHandler handler_;  // Outlives the server.
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<HttpClient> client_;
};

TEST_F(HttpClientTest, CallsOneAfterTheOtherShareAConnection) {
  for (int i = 0; i < 5; ++i) {
    const std::string body(i * 100'000, static_cast<char>('a' + i));
    const auto reply = Post("/echo", body);
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->status, 200u);
    EXPECT_EQ(reply->body, body);
    EXPECT_EQ(HeaderOf(*reply, "x-test"), "yes");
  }
  EXPECT_EQ(server_->Stats().accepted_connections, 1u);
}

TEST_F(HttpClientTest, AnErrorOfTheServerIsAReply) {
  const auto reply = client_->Ask({.path = "/nothing"});

  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->status, 404u);
  EXPECT_EQ(HeaderOf(*reply, "x-reason"), "/base/nothing");
}

TEST_F(HttpClientTest, AHundredCallsAtOnceAllGetTheirOwnReply) {
  std::vector<TestSink::State> states(100);
  for (size_t i = 0; i < states.size(); ++i) {
    client_->Send({.method = "POST", .path = "/echo", .body = std::to_string(i)},
                  std::make_unique<TestSink>(states[i]));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    EXPECT_TRUE(states[i].end.get_future().get().ok());
    EXPECT_EQ(states[i].body, std::to_string(i));
  }
}

TEST_F(HttpClientTest, PiecesOfAStreamComeAsTheyAreSent) {
  TestSink::State state;
  client_->Send({.path = "/stream"}, std::make_unique<TestSink>(state));
  handler_.stream.begun.get_future().wait();

  Push(handler_.stream, "data: 1\n\n", /*ends=*/false);
  EXPECT_EQ(state.first_piece.get_future().get(), "data: 1\n\n");  // The server holds the rest back until now.
  Push(handler_.stream, "data: 2\n\n", /*ends=*/true);

  EXPECT_TRUE(state.end.get_future().get().ok());
  EXPECT_EQ(state.body, "data: 1\n\ndata: 2\n\n");
}

TEST_F(HttpClientTest, ACallThatHangsUpEndsAndTheServerNotices) {
  TestSink::State state;
  client_->Send({.path = "/stream", .hangs_up_after = std::chrono::milliseconds(20)},
                std::make_unique<TestSink>(state));

  EXPECT_EQ(state.end.get_future().get().code(), StatusCode::kCancelled);
  handler_.stream.gone.get_future().wait();
  EXPECT_EQ(Post("/echo", "x")->body, "x");  // Others go on.
}

TEST_F(HttpClientTest, HangingUpEndsAllCallsAndLaterOnes) {
  TestSink::State running, later;
  client_->Send({.path = "/stream"}, std::make_unique<TestSink>(running));
  handler_.stream.begun.get_future().wait();

  client_->HangUp();
  client_->Send({.path = "/stream"}, std::make_unique<TestSink>(later));

  EXPECT_EQ(running.end.get_future().get().code(), StatusCode::kCancelled);
  EXPECT_EQ(later.end.get_future().get().code(), StatusCode::kCancelled);
}

TEST_F(HttpClientTest, ActionsRunAtTheirTimeInOrder) {
  std::vector<int> order;
  std::promise<void> done;
  const auto now = HttpClient::Clock::now();

  client_->RunAt(now + std::chrono::milliseconds(20), [&] {
    order.push_back(2);
    done.set_value();
  });
  client_->RunAt(now, [&] { order.push_back(1); });
  client_->RunAt(now + std::chrono::hours(1), [&] { order.push_back(3); });  // The client does not wait for it.
  done.get_future().wait();
  client_.reset();

  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_F(HttpClientTest, AConnectionThatTheServerClosedMeanwhileIsReplaced) {
  ASSERT_TRUE(Post("/echo", "first").ok());
  const uint16_t port = server_->port();
  server_.reset();
  HttpServerOptions options;
  options.port = port;
  server_ = HttpServer::Start(options, handler_).value();

  EXPECT_EQ(Post("/echo", "second")->body, "second");
}

TEST_F(HttpClientTest, WhereNobodyListensACallSaysSo) {
  server_.reset();
  const auto reply = client_->Ask({.path = "/x"});
  EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(reply.status().message(), HasSubstr("cannot connect to 127.0.0.1:"));
}

// Accepts connections one after the other, reads a little of each, sends `reply` and closes.
class BareServer {
 public:
  BareServer(std::string reply, int num_connections) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, reply = std::move(reply), num_connections] {
      for (int i = 0; i < num_connections; ++i) {
        const int connection = accept(fd_, nullptr, nullptr);
        char bytes[4096];
        EXPECT_GT(recv(connection, bytes, sizeof(bytes), 0), 0);
        EXPECT_EQ(send(connection, reply.data(), reply.size(), MSG_NOSIGNAL), static_cast<ssize_t>(reply.size()));
        close(connection);
      }
    });
  }
  ~BareServer() {
    thread_.join();
    close(fd_);
  }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
  std::thread thread_;
};

Result<HttpResponse> AskBare(const std::string& reply) {
  const BareServer server(reply, 1);
  const HttpUrl url{.host = "127.0.0.1", .port = server.port(), .path = ""};
  return HttpClient::Create(url).value()->Ask({.path = "/"});
}

TEST(HttpClientBytesTest, ABodyWithoutLengthEndsWithTheConnection) {
  const auto reply = AskBare("HTTP/1.0 200 OK\r\n\r\nall of it");
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->body, "all of it");
}

TEST(HttpClientBytesTest, ReplyThatIsCutOrNoHttpIsAnError) {
  for (const char* reply :
       {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "HTTP/1.1 200 OK\r\nContent-Le",
        "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"}) {
    const auto result = AskBare(reply);
    EXPECT_EQ(result.status().code(), StatusCode::kIoError) << reply;
  }
}

}  // namespace
}  // namespace kvern::server
