#include "server/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "server/http_format.h"

namespace kvern::server {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using net::ip::tcp;
using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;
using Parser = http::request_parser<http::string_body>;
using namespace net::experimental::awaitable_operators;

constexpr size_t kReadBytes = 4096;
constexpr size_t kMaxPipelinedBytes = 64u << 10;  // Read ahead while a reply is being made; more waits in the kernel.
constexpr size_t kMaxBufferBytes = 128u << 10;
constexpr size_t kWriteBytes = 64u << 10;
constexpr uint64_t kSmallBodyBytes = 64u << 10;  // There is room for so much of every connection.
// A client that is told off before its request was read gets so much of it taken, or the kernel would answer it with a
// reset that can overtake the reply.
constexpr size_t kLingerBytes = 1u << 20;
constexpr Millis kLingerTimeout{1000};
constexpr Millis kAcceptPause{100};    // After a failed accept, such as for want of file descriptors.
constexpr uint32_t kMaxRefusing = 64;  // Connections that are told that there are too many; more are just closed.
constexpr int kKeepIdleSeconds = 30;   // Silence after which the kernel asks whether the peer is still there.

// What all connections share. I/O thread.
struct Context {
  const HttpServerOptions& options;
  HttpHandler& handler;
  net::io_context& io;
  net::thread_pool& handler_threads;
  uint64_t body_bytes = 0;  // Of options.max_total_body_bytes.
  bool is_draining = false;
};

// The part of Context::body_bytes that one request has, while it lives. Small bodies are no part of it, and large ones
// are with what has come of them, not with what is announced: clients that hold back what they promised stop nobody.
class BodyBytes {
 public:
  explicit BodyBytes(Context& context) : context_(context) {}
  ~BodyBytes() { Clear(); }
  BodyBytes(const BodyBytes&) = delete;
  BodyBytes& operator=(const BodyBytes&) = delete;

  bool HasRoomFor(uint64_t body_bytes) const {
    return body_bytes <= kSmallBodyBytes ||
           context_.body_bytes - num_bytes_ + body_bytes <= context_.options.max_total_body_bytes;
  }
  void Set(uint64_t body_bytes) {
    Clear();
    num_bytes_ = body_bytes <= kSmallBodyBytes ? 0 : body_bytes;
    context_.body_bytes += num_bytes_;
  }
  void Clear() { context_.body_bytes -= std::exchange(num_bytes_, 0); }

 private:
  Context& context_;
  uint64_t num_bytes_ = 0;
};

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

void FillHead(const Parser::value_type& message, HttpRequest& request) {
  request.method = std::string(View(message.method_string()));
  request.path = std::string(PathOf(View(message.target())));
  for (const auto& field : message) {
    request.headers.push_back({LowerCase(View(field.name_string())), std::string(View(field.value()))});
  }
}

// Wakes the coroutine that makes a reply. Shared: streams of the engine may call after the reply has ended.
class Waker {
 public:
  explicit Waker(net::io_context& io) : io_(io), timer_(io) {}

  // Any thread. Calls that come before the first is seen are one.
  static void Wake(const std::shared_ptr<Waker>& waker) {
    if (waker->is_posted_.exchange(true)) return;
    net::post(waker->io_, [waker] {
      waker->is_posted_ = false;
      waker->is_woken_ = true;
      waker->timer_.cancel();
    });
  }
  // I/O thread. False where `limit` went by without a call of Wake since the last wait.
  net::awaitable<bool> Wait(Millis limit) {
    error_code error;
    if (!is_woken_) {
      timer_.expires_after(limit);
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, error));
    }
    co_return std::exchange(is_woken_, false);
  }

 private:
  net::io_context& io_;
  net::steady_timer timer_;
  std::atomic<bool> is_posted_ = false;
  bool is_woken_ = false;
};

// Handler exceptions do not come this far, but memory may run out anywhere.
net::awaitable<HttpReply> HandleRequest(HttpHandler& handler, HttpRequest request) {
  co_return handler.Handle(std::move(request));
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Context& context, tcp::socket socket, std::string remote)
      : context_(context), socket_(std::move(socket)), deadline_(context.io), remote_(std::move(remote)) {}

  // Serves requests until one side has had enough.
  net::awaitable<void> Run();
  // Tells the client that there is no room for it.
  net::awaitable<void> RunRefused(unsigned status, std::string message);

  const std::string& remote() const { return remote_; }
  void CloseIfIdle() {
    if (is_idle_) Close();
  }
  void StopReply() {
    if (source_ != nullptr) source_->Stop();
  }
  void Close() {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  enum class Next : uint8_t { kGoOn, kClose };

  net::awaitable<bool> AwaitRequest();
  net::awaitable<Next> ServeRequest();
  net::awaitable<bool> ReadBody(Parser& parser, HttpRequest& request, BodyBytes& counted, HttpReply& refusal);
  net::awaitable<Next> Send(HttpReply reply, bool keeps_alive);
  net::awaitable<bool> SendSource(HttpReply& reply, bool keeps_alive);
  net::awaitable<bool> SendWhole(const HttpResponse& response, bool keeps_alive);
  net::awaitable<bool> Write(std::string_view data);
  net::awaitable<void> WatchForClose();
  net::awaitable<void> Linger();

  // Whether a failed read leaves someone to answer, and with what.
  std::optional<HttpReply> ReplyToError(const error_code& error, const HttpRequest& request);
  // Cancels what the socket does when `limit` has gone by.
  void SetDeadline(Millis limit);
  void ClearDeadline() { deadline_.expires_at(Clock::time_point::max()); }

  Context& context_;
  tcp::socket socket_;
  net::steady_timer deadline_;
  const std::string remote_;
  boost::beast::flat_buffer buffer_{kMaxBufferBytes};  // Bytes of requests that are not parsed yet.
  bool is_idle_ = false;
  bool has_timed_out_ = false;

  // Of the request being served.
  Clock::time_point begin_;
  bool is_http_1_0_ = false;
  bool is_head_ = false;                 // HEAD: a reply without its body.
  std::unique_ptr<ReplySource> source_;  // Of its reply.
  uint64_t num_body_bytes_ = 0;          // Sent.
};

void Connection::SetDeadline(Millis limit) {
  has_timed_out_ = false;
  deadline_.expires_after(limit);
  deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->deadline_.expiry() > Clock::now()) return;
    self->has_timed_out_ = true;
    error_code ignored;
    self->socket_.cancel(ignored);
  });
}

net::awaitable<void> Connection::Run() {
  try {
    while (true) {  // g++ 12 awaits both sides of `co_await a && co_await b`.
      const bool has_request = co_await AwaitRequest();
      if (!has_request) break;
      const Next next = co_await ServeRequest();
      if (next == Next::kClose) break;
    }
    co_await Linger();
  } catch (const std::exception&) {
    // Memory ran out, or a library was surprised: this connection ends, the others go on.
  }
  source_.reset();
  ClearDeadline();
  Close();
}

net::awaitable<void> Connection::RunRefused(unsigned status, std::string message) {
  try {
    begin_ = Clock::now();
    const HttpRequest nothing = {.remote = remote_};
    co_await Send(context_.handler.Refuse(nothing, status, message), /*keeps_alive=*/false);
    co_await Linger();
  } catch (const std::exception&) {
    // As above.
  }
  ClearDeadline();
  Close();
}

// Waits for the first byte; true where there is one.
net::awaitable<bool> Connection::AwaitRequest() {
  if (buffer_.size() > 0) co_return true;
  if (context_.is_draining) co_return false;
  is_idle_ = true;
  SetDeadline(context_.options.idle_timeout);
  error_code error;
  const size_t n =
      co_await socket_.async_read_some(buffer_.prepare(kReadBytes), net::redirect_error(net::use_awaitable, error));
  buffer_.commit(n);
  is_idle_ = false;
  co_return !error;
}

net::awaitable<Connection::Next> Connection::ServeRequest() {
  begin_ = Clock::now();
  is_http_1_0_ = false;
  is_head_ = false;
  HttpRequest request;
  request.remote = remote_;
  Parser parser;
  parser.header_limit(static_cast<uint32_t>(context_.options.max_header_bytes));
  parser.body_limit(context_.options.max_body_bytes);

  SetDeadline(context_.options.header_timeout);
  error_code error;
  co_await http::async_read_header(socket_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
  FillHead(parser.get(), request);
  is_http_1_0_ = parser.get().version() < 11;
  is_head_ = request.method == "HEAD";
  if (error) {
    if (std::optional<HttpReply> reply = ReplyToError(error, request)) {
      co_await Send(std::move(*reply), /*keeps_alive=*/false);
    }
    co_return Next::kClose;
  }
  // Where such a body ends is not known, and what is in it must not pass for the next request (RFC 9112 section 6.3).
  const auto coding = parser.get().find(http::field::transfer_encoding);
  if (coding != parser.get().end() && (is_http_1_0_ || LowerCase(View(coding->value())) != "chunked")) {
    co_await Send(
        context_.handler.Refuse(request, 501, "the only Transfer-Encoding known here is chunked, of HTTP/1.1"),
        /*keeps_alive=*/false);
    co_return Next::kClose;
  }
  if (std::optional<HttpReply> reply = context_.handler.CheckHead(request)) {
    // What follows is only known to be a request where there is no body.
    const bool keeps_alive = parser.is_done() && parser.get().keep_alive();
    co_return co_await Send(std::move(*reply), keeps_alive);
  }
  HttpReply reply;
  BodyBytes counted(context_);
  if (!co_await ReadBody(parser, request, counted, reply)) {
    if (reply.response.status != 0) co_await Send(std::move(reply), /*keeps_alive=*/false);
    co_return Next::kClose;
  }
  ClearDeadline();
  reply = co_await net::co_spawn(context_.handler_threads, HandleRequest(context_.handler, std::move(request)),
                                 net::use_awaitable);
  counted.Clear();
  co_return co_await Send(std::move(reply), parser.get().keep_alive());
}

// Reads the rest of the request. False: `refusal` is the reply, status 0 where there is nobody to reply to.
net::awaitable<bool> Connection::ReadBody(Parser& parser, HttpRequest& request, BodyBytes& counted,
                                          HttpReply& refusal) {
  refusal.response.status = 0;
  if (parser.is_done()) co_return true;
  uint64_t num_bytes = parser.content_length().value_or(0);
  SetDeadline(context_.options.body_timeout);
  error_code error;
  if (LowerCase(request.Header("expect")) == "100-continue" && !is_http_1_0_) {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await net::async_write(socket_, net::buffer(kContinue.data(), kContinue.size()),
                              net::redirect_error(net::use_awaitable, error));
  }
  parser.eager(true);  // Many small chunks are one piece.
  while (!error && !parser.is_done()) {
    if (!counted.HasRoomFor(num_bytes)) {
      refusal = context_.handler.Refuse(request, 503, "too many large requests at once; try again later");
      co_return false;
    }
    co_await http::async_read_some(socket_, buffer_, parser, net::redirect_error(net::use_awaitable, error));
    num_bytes = parser.get().body().size();
    counted.Set(num_bytes);
  }
  if (error) {
    if (std::optional<HttpReply> reply = ReplyToError(error, request)) refusal = std::move(*reply);
    co_return false;
  }
  request.body = std::move(parser.get().body());
  co_return true;
}

std::optional<HttpReply> Connection::ReplyToError(const error_code& error, const HttpRequest& request) {
  const auto refuse = [&](unsigned status, const std::string& message) {
    return context_.handler.Refuse(request, status, message);
  };
  const HttpServerOptions& options = context_.options;
  if (has_timed_out_) return refuse(408, "the request did not come to its end in time");
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return refuse(431, "the headers are larger than " + std::to_string(options.max_header_bytes) + " bytes");
  }
  if (error == http::error::body_limit) {
    return refuse(413, "the body is larger than " + std::to_string(options.max_body_bytes) + " bytes");
  }
  if (error == http::error::bad_version) return refuse(505, "this server speaks HTTP/1.1 and HTTP/1.0");
  // The client has left, before or within a request.
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  if (error.category() != http::make_error_code(http::error::bad_method).category()) return std::nullopt;
  return refuse(400, "this is not HTTP: " + error.message());
}

net::awaitable<Connection::Next> Connection::Send(HttpReply reply, bool keeps_alive) {
  keeps_alive = keeps_alive && !context_.is_draining;
  num_body_bytes_ = 0;
  bool is_complete = false;
  if (reply.source == nullptr) {
    is_complete = co_await SendWhole(reply.response, keeps_alive);
  } else {
    source_ = std::move(reply.source);
    const auto first = co_await (WatchForClose() || SendSource(reply, keeps_alive));
    if (const bool* sent = std::get_if<1>(&first)) is_complete = *sent;
    source_.reset();
  }
  if (reply.on_end) {
    reply.on_end({.status = reply.response.status,
                  .num_bytes = num_body_bytes_,
                  .is_complete = is_complete,
                  .duration = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin_)});
  }
  const bool ends_by_closing = reply.is_event_stream && is_http_1_0_;
  const bool goes_on = is_complete && keeps_alive && !ends_by_closing;
  co_return goes_on ? Next::kGoOn : Next::kClose;
}

net::awaitable<bool> Connection::SendWhole(const HttpResponse& response, bool keeps_alive) {
  std::string text =
      FormatHead(response, BodyFraming::kLength, response.body.size(), keeps_alive, std::chrono::system_clock::now());
  const size_t head_bytes = text.size();
  if (!is_head_) text += response.body;
  const bool is_sent = co_await Write(text);
  if (is_sent) num_body_bytes_ = text.size() - head_bytes;
  co_return is_sent;
}

// Sends the reply of source_ as it comes. False where the client would not take it.
net::awaitable<bool> Connection::SendSource(HttpReply& reply, bool keeps_alive) {
  // After a cancellation the loop ends by the checks below, not by an exception.
  co_await net::this_coro::throw_if_cancelled(false);
  const auto waker = std::make_shared<Waker>(context_.io);
  source_->OnReady([waker] { Waker::Wake(waker); });
  const BodyFraming framing = is_http_1_0_ ? BodyFraming::kClose : BodyFraming::kChunked;
  HttpResponse& response = reply.response;
  bool is_begun = false;
  while (true) {
    const bool is_done = source_->Read(response);
    if (!reply.is_event_stream) {
      if (is_done) co_return co_await SendWhole(response, keeps_alive);
    } else if (is_done || !response.body.empty() || !is_begun) {
      std::string text;
      if (!is_begun) text = FormatHead(response, framing, 0, keeps_alive, std::chrono::system_clock::now());
      is_begun = true;
      text += framing == BodyFraming::kChunked ? FormatChunk(response.body) : response.body;
      if (is_done && framing == BodyFraming::kChunked) text += kLastChunk;
      if (!co_await Write(text)) co_return false;
      num_body_bytes_ += response.body.size();
      const bool has_sent = !response.body.empty();
      response.body.clear();
      if (is_done) co_return true;
      if (has_sent) continue;  // There may be more: Read gives a little at a time.
    }
    const auto silence =
        reply.is_event_stream ? context_.options.event_comment_interval : Millis(std::chrono::hours(1));
    const bool is_woken = co_await waker->Wait(silence);
    const auto cancelled = (co_await net::this_coro::cancellation_state).cancelled();
    if (cancelled != net::cancellation_type::none || !socket_.is_open()) co_return false;
    if (!is_woken && reply.is_event_stream) response.body = kEventComment;
  }
}

net::awaitable<bool> Connection::Write(std::string_view data) {
  while (!data.empty()) {
    const std::string_view piece = data.substr(0, kWriteBytes);
    SetDeadline(context_.options.write_timeout);
    error_code error;
    co_await net::async_write(socket_, net::buffer(piece.data(), piece.size()),
                              net::redirect_error(net::use_awaitable, error));
    ClearDeadline();
    if (error) co_return false;
    data.remove_prefix(piece.size());
  }
  co_return true;
}

// Returns when the client has closed its side. What it sends meanwhile is kept for the next request.
net::awaitable<void> Connection::WatchForClose() {
  co_await net::this_coro::throw_if_cancelled(false);
  error_code error;
  while (buffer_.size() < kMaxPipelinedBytes) {
    const size_t n =
        co_await socket_.async_read_some(buffer_.prepare(kReadBytes), net::redirect_error(net::use_awaitable, error));
    buffer_.commit(n);
    if (error) co_return;
  }
  // A client that sends so much without reading: its leaving shows when a write fails.
  net::steady_timer never(context_.io, Clock::time_point::max());
  co_await never.async_wait(net::redirect_error(net::use_awaitable, error));
}

// Lets the client read the last reply before the connection is gone.
net::awaitable<void> Connection::Linger() {
  error_code error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  if (error) co_return;
  SetDeadline(std::min(kLingerTimeout, context_.options.header_timeout));
  char sink[kReadBytes];
  for (size_t total = 0; total < kLingerBytes && !error;) {
    total += co_await socket_.async_read_some(net::buffer(sink), net::redirect_error(net::use_awaitable, error));
  }
}

std::string AddressText(const tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  const std::string port = ":" + std::to_string(endpoint.port());
  return endpoint.address().is_v6() ? "[" + host + "]" + port : host + port;
}

class HttpServerImpl : public HttpServer {
 public:
  HttpServerImpl(const HttpServerOptions& options, HttpHandler& handler)
      : options_(options),
        handler_threads_(options.num_handler_threads),
        acceptor_(io_),
        context_{options_, handler, io_, handler_threads_} {}
  ~HttpServerImpl() override;

  Status Listen();
  Status StartThread();

  std::string address() const override { return AddressText(endpoint_); }
  uint16_t port() const override { return endpoint_.port(); }
  HttpServerStats Stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  uint64_t Drain(Millis limit, Millis grace) override;

 private:
  net::awaitable<void> Accept();
  void Admit(tcp::socket socket);
  void Forget(const std::shared_ptr<Connection>& connection, bool is_refused);
  template <typename Fn>
  void ForEachConnection(Fn fn);
  bool AwaitEmpty(Millis limit);

  const HttpServerOptions options_;
  net::io_context io_{1};
  net::thread_pool handler_threads_;
  tcp::acceptor acceptor_;
  tcp::endpoint endpoint_;
  Context context_;
  // I/O thread.
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::map<std::string, uint32_t> connections_of_address_;
  uint32_t num_refusing_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  HttpServerStats stats_;  // Guarded by mutex_.

  net::executor_work_guard<net::io_context::executor_type> keeps_running_{io_.get_executor()};

  std::thread thread_;
};

Status HttpServerImpl::Listen() {
  const std::string where = options_.host + " port " + std::to_string(options_.port);
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
  if (error || found.empty()) return Status::IoError("cannot resolve the address " + where + ": " + error.message());
  const tcp::endpoint wanted = found.begin()->endpoint();
  acceptor_.open(wanted.protocol(), error);
  if (!error) acceptor_.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(wanted, error);
  if (!error) acceptor_.listen(net::socket_base::max_listen_connections, error);
  if (!error) endpoint_ = acceptor_.local_endpoint(error);
  if (!error) return Status::Ok();
  if (error == net::error::address_in_use) {
    return Status::IoError("cannot listen on " + where +
                           ": another program listens there; choose another --port, or 0 " + "for one that is free");
  }
  return Status::IoError("cannot listen on " + where + ": " + error.message());
}

Status HttpServerImpl::StartThread() {
  // Each connection is a file; shells often allow 1024.
  rlimit files = {};
  const rlim_t wanted = options_.max_connections + 256;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < wanted) {
    files.rlim_cur = std::min(files.rlim_max, wanted);
    setrlimit(RLIMIT_NOFILE, &files);  // Where this fails, accepting pauses when files run out.
  }
  net::co_spawn(io_, Accept(), net::detached);
  try {
    thread_ = std::thread([this] { io_.run(); });
  } catch (const std::system_error& error) {
    return Status::ResourceExhausted(std::string("the server's thread cannot be started: ") + error.what());
  }
  return Status::Ok();
}

net::awaitable<void> HttpServerImpl::Accept() {
  net::steady_timer pause(io_);
  while (!context_.is_draining) {
    error_code error;
    tcp::socket socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, error));
    if (!acceptor_.is_open()) co_return;
    if (!error) {
      Admit(std::move(socket));
      continue;
    }
    pause.expires_after(kAcceptPause);
    co_await pause.async_wait(net::redirect_error(net::use_awaitable, error));
  }
}

void HttpServerImpl::Admit(tcp::socket socket) {
  error_code error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return;  // Gone already.
  const std::string remote = peer.address().to_string();
  socket.set_option(tcp::no_delay(true), error);
  socket.set_option(net::socket_base::keep_alive(true), error);
  setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_KEEPIDLE, &kKeepIdleSeconds, sizeof(kKeepIdleSeconds));

  const bool is_full = connections_.size() - num_refusing_ >= options_.max_connections;
  const auto of_address = connections_of_address_.find(remote);
  const bool is_greedy =
      of_address != connections_of_address_.end() && of_address->second >= options_.max_connections_per_address;
  const bool is_refused = is_full || is_greedy;
  {
    const std::lock_guard lock(mutex_);
    ++(is_refused ? stats_.refused_connections : stats_.accepted_connections);
  }
  if (is_refused && num_refusing_ >= kMaxRefusing) return;
  const auto connection = std::make_shared<Connection>(context_, std::move(socket), remote);
  connections_.emplace(connection.get(), connection);
  {
    const std::lock_guard lock(mutex_);
    stats_.open_connections = connections_.size();
  }
  const auto forget = [this, connection, is_refused](std::exception_ptr) { Forget(connection, is_refused); };
  if (!is_refused) {
    ++connections_of_address_[remote];
    net::co_spawn(io_, connection->Run(), forget);
    return;
  }
  ++num_refusing_;
  net::co_spawn(io_,
                is_full ? connection->RunRefused(503, "too many connections; try again later")
                        : connection->RunRefused(429, "too many connections from " + remote),
                forget);
}

void HttpServerImpl::Forget(const std::shared_ptr<Connection>& connection, bool is_refused) {
  connections_.erase(connection.get());
  if (is_refused) {
    --num_refusing_;
  } else if (const auto of_address = connections_of_address_.find(connection->remote()); --of_address->second == 0) {
    connections_of_address_.erase(of_address);
  }
  {
    const std::lock_guard lock(mutex_);
    stats_.open_connections = connections_.size();
  }
  changed_.notify_all();
}

template <typename Fn>
void HttpServerImpl::ForEachConnection(Fn fn) {
  net::post(io_, [this, fn] {
    for (const auto& [key, connection] : connections_) fn(*connection);
  });
}

bool HttpServerImpl::AwaitEmpty(Millis limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return stats_.open_connections == 0; });
}

uint64_t HttpServerImpl::Drain(Millis limit, Millis grace) {
  net::post(io_, [this] {
    context_.is_draining = true;
    error_code ignored;
    acceptor_.close(ignored);
  });
  ForEachConnection([](Connection& connection) { connection.CloseIfIdle(); });
  // The two above have run, so that no connection comes after what is counted below.
  std::mutex posted_mutex;
  std::condition_variable posted;
  bool is_seen = false;
  net::post(io_, [&] {
    const std::lock_guard lock(posted_mutex);
    is_seen = true;
    posted.notify_all();
  });
  {
    std::unique_lock lock(posted_mutex);
    posted.wait(lock, [&] { return is_seen; });
  }
  if (AwaitEmpty(limit)) return 0;
  ForEachConnection([](Connection& connection) { connection.StopReply(); });
  if (AwaitEmpty(grace)) return 0;
  const uint64_t num_left = Stats().open_connections;
  ForEachConnection([](Connection& connection) { connection.Close(); });
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stats_.open_connections == 0; });
  return num_left;
}

HttpServerImpl::~HttpServerImpl() {
  if (thread_.joinable()) {
    Drain(Millis(0), Millis(0));
    keeps_running_.reset();
    thread_.join();
  }
  handler_threads_.join();
}

}  // namespace

Status HttpServerOptions::Validate() const {
  const auto check = [](const char* name, uint64_t value, uint64_t min, uint64_t max) {
    if (value >= min && value <= max) return Status::Ok();
    return Status::InvalidArgument(std::string(name) + " is " + std::to_string(value) + ", expected " +
                                   std::to_string(min) + " to " + std::to_string(max));
  };
  KVERN_RETURN_IF_ERROR(check("num_handler_threads", num_handler_threads, 1, 256));
  KVERN_RETURN_IF_ERROR(check("max_connections", max_connections, 1, 1u << 20));
  KVERN_RETURN_IF_ERROR(check("max_connections_per_address", max_connections_per_address, 1, 1u << 20));
  KVERN_RETURN_IF_ERROR(check("max_header_bytes", max_header_bytes, 256, 64u << 10));
  KVERN_RETURN_IF_ERROR(check("max_body_bytes", max_body_bytes, 1, 1u << 30));
  return check("max_total_body_bytes", max_total_body_bytes, max_body_bytes, 1ull << 40);
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options, HttpHandler& handler) {
  KVERN_RETURN_IF_ERROR(options.Validate());
  auto server = std::make_unique<HttpServerImpl>(options, handler);
  KVERN_RETURN_IF_ERROR(server->Listen());
  KVERN_RETURN_IF_ERROR(server->StartThread());
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace kvern::server
