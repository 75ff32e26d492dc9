// The server with real sockets on loopback. Nothing sleeps: time limits are set so small, or so large, that what the
// test waits for must come.
#include "server/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace kvern::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Millis = std::chrono::milliseconds;

constexpr Millis kNever{60'000};
constexpr Millis kSoon{30};

// A connection that gives up after a minute, so that a test that is wrong ends.
class Client {
 public:
  explicit Client(uint16_t port, int receive_bytes = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (receive_bytes > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;

  bool is_connected() const { return is_connected_; }
  void Send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t n = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // The server has had enough; its reply is what counts.
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  // Up to and with the first `end` that comes; what follows stays for the next call.
  std::string ReadUntil(std::string_view end) {
    size_t at;
    while ((at = buffer_.find(end)) == std::string::npos) {
      if (!Receive()) return std::exchange(buffer_, {});
    }
    const std::string text = buffer_.substr(0, at + end.size());
    buffer_.erase(0, text.size());
    return text;
  }
  // Until the server closes.
  std::string ReadAll() {
    while (Receive()) {
    }
    return std::exchange(buffer_, {});
  }

 private:
  bool Receive() {
    char bytes[4096];
    const ssize_t n = recv(fd_, bytes, sizeof(bytes), 0);
    if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }

  int fd_;
  bool is_connected_ = false;
  std::string buffer_;
};

// What a test says to the reply that it has asked for, and learns of it.
struct Remote {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> wake;
  std::string pending;
  uint64_t num_taken = 0;  // Bytes.
  bool is_endless = false;
  bool is_finished = false;
  bool is_held = false;
  bool is_stopped = false;
  bool is_destroyed = false;
  std::optional<HttpOutcome> outcome;

  template <typename Fn>
  void Await(Fn is_true) {
    std::unique_lock lock(mutex);
    changed.wait(lock, is_true);
  }
  void Push(std::string text, bool finishes = false) {
    const std::lock_guard lock(mutex);
    pending += text;
    is_finished = is_finished || finishes;
    if (wake) wake();
    changed.notify_all();
  }
  HttpOutcome AwaitOutcome() {
    Await([this] { return outcome.has_value(); });
    return *outcome;
  }
};

class RemoteSource : public ReplySource {
 public:
  explicit RemoteSource(Remote& remote) : remote_(remote) {}
  ~RemoteSource() override {
    const std::lock_guard lock(remote_.mutex);
    remote_.is_destroyed = true;
    remote_.wake = nullptr;
    remote_.changed.notify_all();
  }
  void OnReady(std::function<void()> wake) override {
    const std::lock_guard lock(remote_.mutex);
    remote_.wake = std::move(wake);
    remote_.changed.notify_all();
  }
  bool Read(HttpResponse& response) override {
    const std::lock_guard lock(remote_.mutex);
    response.body += remote_.is_endless ? std::string(1000, 'x') : std::exchange(remote_.pending, {});
    remote_.num_taken += response.body.size();
    return remote_.is_finished;
  }
  void Stop() override {
    const std::lock_guard lock(remote_.mutex);
    remote_.is_stopped = true;
    remote_.changed.notify_all();
  }

 private:
  Remote& remote_;
};

// GET /hello, POST /echo; /stream and /later reply what the test says, /held is an echo when the test says that it is
// finished; /forbidden is refused by its head.
class TestHandler : public HttpHandler {
 public:
  Remote remote;
  std::atomic<int> num_handled = 0;

  std::optional<HttpReply> CheckHead(const HttpRequest& head) override {
    if (head.path == "/forbidden") return Refuse(head, 401, "no");
    return std::nullopt;
  }
  HttpReply Handle(HttpRequest request) override {
    ++num_handled;
    if (request.path == "/held") {
      std::unique_lock lock(remote.mutex);
      remote.is_held = true;
      remote.changed.notify_all();
      remote.changed.wait(lock, [this] { return remote.is_finished; });
    }
    HttpReply reply;
    reply.response.body =
        request.path == "/echo" || request.path == "/held" ? request.body : request.method + " " + request.path;
    if (request.path == "/stream" || request.path == "/later") {
      reply.response.body.clear();
      reply.source = std::make_unique<RemoteSource>(remote);
      reply.is_event_stream = request.path == "/stream";
      reply.on_end = [this](const HttpOutcome& outcome) {
        const std::lock_guard lock(remote.mutex);
        remote.outcome = outcome;
        remote.changed.notify_all();
      };
    }
    return reply;
  }
  HttpReply Refuse(const HttpRequest&, unsigned status, const std::string& message) override {
    HttpReply reply;
    reply.response.status = status;
    reply.response.body = "refused: " + message;
    return reply;
  }
};

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    options_.port = 0;
    options_.idle_timeout = options_.header_timeout = options_.body_timeout = options_.write_timeout = kNever;
    options_.event_comment_interval = kNever;
  }
  void Start() { server_ = HttpServer::Start(options_, handler_).value(); }
  uint16_t port() const { return server_->port(); }
  // The whole reply to `request` on a connection of its own, which the server must close.
  std::string Ask(std::string_view request) const {
    Client client(port());
    client.Send(request);
    return client.ReadAll();
  }

  TestHandler handler_;  // Outlives the server.
  HttpServerOptions options_;
  std::unique_ptr<HttpServer> server_;
};

std::string Get(const std::string& path, const std::string& more = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "\r\n";
}

std::string Post(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + more + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST_F(HttpServerTest, AConnectionServesOneRequestAfterTheOther) {
  Start();
  Client client(port());

  for (int i = 0; i < 3; ++i) {
    client.Send(Post("/echo", "body " + std::to_string(i)));
    EXPECT_THAT(client.ReadUntil("body " + std::to_string(i)),
                AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("Connection: keep-alive\r\n"),
                      HasSubstr("Content-Length: 6\r\n"), HasSubstr("Date: ")));
  }
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInTheirOrder) {
  Start();
  Client client(port());

  client.Send(Get("/a") + Post("/echo", "b") + Get("/c", "Connection: close\r\n"));

  const std::string replies = client.ReadAll();
  const size_t a = replies.find("GET /a"), b = replies.find("\r\n\r\nb"), c = replies.find("GET /c");
  ASSERT_NE(c, std::string::npos);
  EXPECT_TRUE(a < b && b < c);
}

TEST_F(HttpServerTest, ARequestThatComesWhileAReplyIsMadeWaits) {
  Start();
  Client client(port());

  client.Send(Get("/later"));
  handler_.remote.Await([&] { return handler_.remote.wake != nullptr; });
  client.Send(Get("/next"));
  handler_.remote.Push("first", /*finishes=*/true);

  EXPECT_THAT(client.ReadUntil("first"), HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(client.ReadUntil("GET /next"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(HttpServerTest, Http10ClosesUnlessAskedNotTo) {
  Start();

  EXPECT_THAT(Ask("GET /hello HTTP/1.0\r\n\r\n"), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("GET /hello")));
  Client client(port());
  client.Send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.ReadUntil("GET /a"), HasSubstr("Connection: keep-alive\r\n"));
  client.Send("GET /b HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), EndsWith("GET /b"));
}

TEST_F(HttpServerTest, AnEventStreamOfHttp10EndsWithTheConnection) {
  Start();
  Client client(port());

  client.Send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  handler_.remote.Push("data: 1\n\n", /*finishes=*/true);

  EXPECT_THAT(client.ReadAll(), AllOf(Not(HasSubstr("chunked")), EndsWith("\r\n\r\ndata: 1\n\n")));
}

TEST_F(HttpServerTest, AHeadRequestGetsNoBody) {
  Start();
  EXPECT_THAT(Ask("HEAD /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              AllOf(HasSubstr("Content-Length: 11\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(HttpServerTest, AChunkedBodyIsPutTogether) {
  Start();
  const std::string reply =
      Ask("POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
          "3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n");
  EXPECT_THAT(reply, EndsWith("\r\n\r\nabcdefg"));
}

TEST_F(HttpServerTest, AClientThatAsksBeforeItSendsIsToldToGoOn) {
  Start();
  Client client(port());

  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");

  EXPECT_THAT(client.ReadUntil("abc"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, WhatIsNotHttpIsRefused) {
  Start();
  for (const char* request : {
           "garbage\r\n\r\n",
           "GET /\x01 HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.1\r\nno colon\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
           "POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
           "POST /echo HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
       }) {
    EXPECT_THAT(Ask(request),
                AllOf(StartsWith("HTTP/1.1 400 Bad Request"), HasSubstr("Connection: close"), HasSubstr("refused: ")))
        << request;
  }
  EXPECT_THAT(Ask("GET / HTTP/3.0\r\n\r\n"), StartsWith("HTTP/1.1 505 "));
  EXPECT_EQ(handler_.num_handled, 0);
}

TEST_F(HttpServerTest, HeadersBeyondTheLimitAreRefused) {
  Start();
  EXPECT_THAT(Ask(Get("/", "X: " + std::string(1u << 20, 'x') + "\r\n")),
              AllOf(StartsWith("HTTP/1.1 431 "), HasSubstr("16384 bytes")));
  EXPECT_THAT(Ask("GET /" + std::string(1u << 20, 'x')), StartsWith("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, BodiesBeyondTheLimitAreRefused) {
  options_.max_body_bytes = 1000;
  Start();

  EXPECT_THAT(Ask(Post("/echo", std::string(1001, 'x'))), AllOf(StartsWith("HTTP/1.1 413 "), HasSubstr("1000 bytes")));
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') +
                  "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask(Post("/echo", std::string(1000, 'x'), "Connection: close\r\n")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, LargeBodiesTogetherHaveALimit) {
  options_.max_body_bytes = options_.max_total_body_bytes = 1'000'000;
  Start();
  const std::string body(600'000, 'x');
  Client first(port());
  first.Send(Post("/held", body));
  handler_.remote.Await([&] { return handler_.remote.is_held; });

  EXPECT_THAT(Ask(Post("/echo", body)), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("too many large requests")));
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n927c0\r\n" + body + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(Ask(Post("/echo", "small", "Connection: close\r\n")), EndsWith("\r\n\r\nsmall"));
  handler_.remote.Push("", /*finishes=*/true);
  EXPECT_THAT(first.ReadUntil("xxx"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Post("/echo", body, "Connection: close\r\n")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, BodiesThatAreOnlyAnnouncedTakeNoRoom) {
  options_.max_body_bytes = options_.max_total_body_bytes = 1'000'000;
  Start();
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<Client>(port()));
    const std::string length = i % 2 == 0 ? "Content-Length: 1000000" : "Transfer-Encoding: chunked";
    silent.back()->Send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + length + "\r\n\r\n");
    silent.back()->ReadUntil("100 Continue\r\n\r\n");
  }

  EXPECT_THAT(Ask(Post("/echo", std::string(900'000, 'x'), "Connection: close\r\n")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, ABodyOfManyChunksIsPutTogether) {
  Start();
  std::string chunks, body;
  for (int i = 0; i < 20'000; ++i) {
    body += static_cast<char>('a' + i % 26);
    chunks += std::string("1\r\n") + body.back() + "\r\n";
  }

  EXPECT_THAT(
      Ask("POST /echo HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n"),
      EndsWith("\r\n\r\n" + body));
}

// What a proxy in front takes for a body must not become a request here.
TEST_F(HttpServerTest, ABodyWhoseEndIsNotKnownEndsTheConnection) {
  Start();
  for (const char* head : {
           "POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
           "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
           "POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
           "POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
           "POST /echo HTTP/1.1\r\nTransfer-Encoding:\r\n\r\n",
           "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
       }) {
    const std::string reply = Ask(head + Get("/hello", "Connection: close\r\n"));
    EXPECT_THAT(reply, AllOf(StartsWith("HTTP/1.1 501 "), HasSubstr("Connection: close"), Not(HasSubstr("GET /hello"))))
        << head;
  }
  EXPECT_EQ(handler_.num_handled, 0);
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"),
              EndsWith("\r\n\r\na"));
}

TEST_F(HttpServerTest, AHeadRefusedBeforeItsBodyGetsItsReply) {
  Start();
  EXPECT_THAT(Ask(Post("/forbidden", std::string(900'000, 'x'))),
              AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("Connection: close"), EndsWith("refused: no")));
  Client client(port());  // Without a body the connection goes on.
  client.Send(Get("/forbidden") + Get("/hello"));
  EXPECT_THAT(client.ReadUntil("GET /hello"), HasSubstr("refused: no"));
}

TEST_F(HttpServerTest, ASlowHeadIsToldSo) {
  options_.header_timeout = kSoon;
  Start();
  EXPECT_THAT(Ask("GET /hello HT"), StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpServerTest, ASlowBodyIsToldSo) {
  options_.body_timeout = kSoon;
  Start();
  EXPECT_THAT(Ask("POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc"), StartsWith("HTTP/1.1 408 "));
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosedWithoutAWord) {
  options_.idle_timeout = kSoon;
  Start();
  EXPECT_EQ(Ask(""), "");
  EXPECT_THAT(Ask(Get("/hello")), EndsWith("GET /hello"));
}

TEST_F(HttpServerTest, EventsAreSentAsTheyCome) {
  Start();
  Client client(port());

  client.Send(Get("/stream"));
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));  // Before the first event.
  handler_.remote.Push("data: 1\n\n");
  EXPECT_EQ(client.ReadUntil("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  handler_.remote.Push("data: 2\n\n", /*finishes=*/true);
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");

  const HttpOutcome outcome = handler_.remote.AwaitOutcome();
  EXPECT_TRUE(outcome.is_complete);
  EXPECT_EQ(outcome.status, 200u);
  EXPECT_EQ(outcome.num_bytes, 18u);
  client.Send(Get("/hello"));
  EXPECT_THAT(client.ReadUntil("GET /hello"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, ASilentEventStreamShowsThatItIsAlive) {
  options_.event_comment_interval = kSoon;
  Start();
  Client client(port());

  client.Send(Get("/stream"));

  client.ReadUntil("\r\n\r\n");
  EXPECT_EQ(client.ReadUntil(":\n\n\r\n"), "3\r\n:\n\n\r\n");
  EXPECT_EQ(client.ReadUntil(":\n\n\r\n"), "3\r\n:\n\n\r\n");
}

TEST_F(HttpServerTest, AClientThatLeavesEndsItsReplyThoughNothingIsWritten) {
  Start();
  for (const char* path : {"/later", "/stream"}) {
    Client client(port());
    client.Send(Get(path));
    handler_.remote.Await([&] { return handler_.remote.wake != nullptr; });

    client.Close();

    handler_.remote.Await([&] { return handler_.remote.is_destroyed; });
    EXPECT_FALSE(handler_.remote.AwaitOutcome().is_complete);
    handler_.remote.is_destroyed = false;
    handler_.remote.outcome.reset();
  }
}

TEST_F(HttpServerTest, ASlowReaderIsGivenUpAndHoldsLittleMemory) {
  options_.write_timeout = kSoon;
  handler_.remote.is_endless = true;
  Start();
  Client client(port(), /*receive_bytes=*/4096);

  client.Send(Get("/stream"));

  EXPECT_FALSE(handler_.remote.AwaitOutcome().is_complete);
  EXPECT_LT(handler_.remote.num_taken, 16u << 20);  // What the kernel holds; the server itself holds one piece.
}

TEST_F(HttpServerTest, ConnectionsBeyondTheLimitAreToldSo) {
  options_.max_connections = 2;
  options_.max_connections_per_address = 2;
  Start();
  Client first(port()), second(port());
  for (Client* client : {&first, &second}) {
    client->Send(Get("/hello"));
    client->ReadUntil("GET /hello");
  }

  EXPECT_THAT(Ask(""), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("too many connections")));
  EXPECT_EQ(server_->Stats().refused_connections, 1u);
  first.Send(Get("/hello"));
  EXPECT_THAT(first.ReadUntil("GET /hello"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, OneAddressCannotTakeAllConnections) {
  options_.max_connections_per_address = 1;
  Start();
  Client first(port());
  first.Send(Get("/hello"));
  first.ReadUntil("GET /hello");

  EXPECT_THAT(Ask(""), StartsWith("HTTP/1.1 429 "));
}

TEST_F(HttpServerTest, FiveHundredConnectionsAtOnceAreServed) {
  Start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 500; ++i) clients.push_back(std::make_unique<Client>(port()));

  for (size_t i = 0; i < clients.size(); ++i) clients[i]->Send(Post("/echo", "<" + std::to_string(i) + ">"));

  for (size_t i = 0; i < clients.size(); ++i) {
    EXPECT_THAT(clients[i]->ReadUntil(">"), EndsWith("<" + std::to_string(i) + ">"));
  }
  EXPECT_EQ(server_->Stats().open_connections, 500u);
}

TEST_F(HttpServerTest, DrainClosesIdleConnectionsAndLetsRepliesEnd) {
  Start();
  Client idle(port()), busy(port());
  idle.Send(Get("/hello"));
  idle.ReadUntil("GET /hello");
  busy.Send(Get("/stream"));
  busy.ReadUntil("\r\n\r\n");

  uint64_t num_cut = 99;
  std::thread drain([&] { num_cut = server_->Drain(kNever, kNever); });
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_FALSE(Client(port()).is_connected());
  handler_.remote.Push("data: 1\n\n", /*finishes=*/true);
  EXPECT_THAT(busy.ReadAll(), EndsWith("data: 1\n\n\r\n0\r\n\r\n"));
  drain.join();

  EXPECT_EQ(num_cut, 0u);
}

TEST_F(HttpServerTest, DrainAsksLongRepliesToEndAndThenCutsThem) {
  Start();
  Client client(port());
  client.Send(Get("/stream"));
  client.ReadUntil("\r\n\r\n");

  EXPECT_EQ(server_->Drain(Millis(1), Millis(1)), 1u);

  EXPECT_TRUE(handler_.remote.is_stopped);
  EXPECT_FALSE(handler_.remote.AwaitOutcome().is_complete);
  EXPECT_EQ(client.ReadAll(), "");
}

TEST_F(HttpServerTest, APortInUseIsAnErrorThatSaysWhatToDo) {
  Start();
  options_.port = port();

  const auto second = HttpServer::Start(options_, handler_);

  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), AllOf(HasSubstr(std::to_string(port())), HasSubstr("--port")));
}

TEST_F(HttpServerTest, AnAddressThatIsNoneIsAnError) {
  options_.host = "not an address";
  EXPECT_EQ(HttpServer::Start(options_, handler_).status().code(), StatusCode::kIoError);
  options_.host = "192.0.2.1";  // Of nobody, by RFC 5737.
  EXPECT_THAT(HttpServer::Start(options_, handler_).status().message(), HasSubstr("192.0.2.1"));
}

TEST_F(HttpServerTest, OptionsOutsideTheLimitsAreRefused) {
  options_.max_total_body_bytes = options_.max_body_bytes - 1;
  EXPECT_THAT(HttpServer::Start(options_, handler_).status().message(), HasSubstr("max_total_body_bytes"));
}

}  // namespace
}  // namespace kvern::server
