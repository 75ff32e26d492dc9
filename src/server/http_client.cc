#include "server/http_client.h"

#include <algorithm>
#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <future>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "server/http_format.h"

namespace kvern::server {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using net::ip::tcp;
using Millis = std::chrono::milliseconds;
using Parser = http::response_parser<http::string_body>;

constexpr size_t kMaxBufferBytes = 128u << 10;  // Above HttpClientOptions::max_header_bytes.

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

std::string AddressText(const HttpUrl& url) {
  const bool is_v6 = url.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + url.host + "]" : url.host) + ":" + std::to_string(url.port);
}

struct Connection {
  explicit Connection(net::io_context& io) : socket(io) {}
  tcp::socket socket;
  boost::beast::flat_buffer buffer{kMaxBufferBytes};
};

// What all calls share. I/O thread.
struct Context {
  const HttpUrl url;
  const HttpClientOptions options;
  net::io_context io{1};
  std::vector<tcp::endpoint> endpoints = {};
  std::vector<std::unique_ptr<Connection>> idle = {};  // Kept open by the server after their last reply.
};

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Context& context, HttpCall call, std::unique_ptr<ReplySink> sink)
      : context_(context),
        call_(std::move(call)),
        sink_(std::move(sink)),
        deadline_(context.io),
        hang_up_timer_(context.io) {}

  // From the request to OnEnd.
  net::awaitable<void> Run();
  void HangUp() {
    has_hung_up_ = true;
    Close();
  }

 private:
  net::awaitable<Status> Exchange();
  net::awaitable<Status> Connect();
  net::awaitable<Status> Converse();
  std::string RequestText() const;
  Status ToStatus(const error_code& error) const;
  // Closes the connection when `limit` has gone by.
  void SetDeadline(Millis limit);
  void ScheduleHangUp();
  void Close() {
    error_code ignored;
    if (connection_ != nullptr) connection_->socket.close(ignored);
  }

  Context& context_;
  const HttpCall call_;
  const std::unique_ptr<ReplySink> sink_;
  net::steady_timer deadline_;
  net::steady_timer hang_up_timer_;
  std::unique_ptr<Connection> connection_;
  bool has_hung_up_ = false;
  bool has_timed_out_ = false;
  bool has_reply_ = false;  // The first bytes of it have come.
};

void Call::SetDeadline(Millis limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->deadline_.expiry() > HttpClient::Clock::now()) return;
    self->has_timed_out_ = true;
    self->Close();
  });
}

void Call::ScheduleHangUp() {
  if (!call_.hangs_up_after.has_value()) return;
  hang_up_timer_.expires_after(*call_.hangs_up_after);
  hang_up_timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (!error && self != nullptr) self->HangUp();
  });
}

net::awaitable<void> Call::Run() {
  ScheduleHangUp();
  Status status;
  try {
    status = co_await Exchange();
  } catch (const std::exception& error) {
    status = Status::ResourceExhausted(std::string("the reply cannot be taken: ") + error.what());
  }
  if (!status.ok()) Close();
  connection_.reset();
  deadline_.cancel();
  hang_up_timer_.cancel();
  sink_->OnEnd(status);
}

net::awaitable<Status> Call::Exchange() {
  while (true) {
    if (has_hung_up_) co_return Status::Cancelled("hung up");
    const bool is_reused = !context_.idle.empty();
    if (is_reused) {
      connection_ = std::move(context_.idle.back());
      context_.idle.pop_back();
    } else {
      const Status connected = co_await Connect();
      if (!connected.ok()) co_return connected;
    }
    const Status status = co_await Converse();
    // A server may close an idle connection at the moment when the next request is on its way: that is no failure.
    const bool was_stale = is_reused && !has_reply_ && !has_timed_out_ && !has_hung_up_;
    if (status.ok() || !was_stale) co_return status;
  }
}

net::awaitable<Status> Call::Connect() {
  connection_ = std::make_unique<Connection>(context_.io);
  SetDeadline(context_.options.connect_timeout);
  error_code error;
  co_await net::async_connect(connection_->socket, context_.endpoints, net::redirect_error(net::use_awaitable, error));
  if (has_hung_up_) co_return Status::Cancelled("hung up");
  if (error) {
    const std::string reason = has_timed_out_ ? "it does not answer in time" : error.message();
    co_return Status::Unavailable("cannot connect to " + AddressText(context_.url) + ": " + reason);
  }
  connection_->socket.set_option(tcp::no_delay(true), error);
  co_return Status::Ok();
}

net::awaitable<Status> Call::Converse() {
  Connection& connection = *connection_;
  error_code error;
  SetDeadline(context_.options.silence_timeout);
  const std::string request = RequestText();
  co_await net::async_write(connection.socket, net::buffer(request), net::redirect_error(net::use_awaitable, error));
  if (error) co_return ToStatus(error);

  Parser parser;
  parser.header_limit(context_.options.max_header_bytes);
  parser.body_limit(context_.options.max_body_bytes);
  parser.skip(call_.method == "HEAD");
  co_await http::async_read_header(connection.socket, connection.buffer, parser,
                                   net::redirect_error(net::use_awaitable, error));
  has_reply_ = has_reply_ || parser.got_some();
  if (error) co_return ToStatus(error);
  HttpResponse head;
  head.status = parser.get().result_int();
  for (const auto& field : parser.get()) {
    head.headers.push_back({LowerCase(View(field.name_string())), std::string(View(field.value()))});
  }
  sink_->OnHead(head);

  // An eager parser would wait for the size of the next chunk before it gives this one out.
  parser.eager(false);
  while (!parser.is_done()) {
    SetDeadline(context_.options.silence_timeout);
    co_await http::async_read_some(connection.socket, connection.buffer, parser,
                                   net::redirect_error(net::use_awaitable, error));
    const std::string piece = std::exchange(parser.get().body(), {});
    if (!piece.empty()) sink_->OnBody(piece);
    if (error) co_return ToStatus(error);
  }
  // Bytes beyond the reply would be taken for the next one.
  const bool is_clean = connection.buffer.size() == 0;
  if (parser.get().keep_alive() && is_clean && !has_hung_up_) context_.idle.push_back(std::move(connection_));
  co_return Status::Ok();
}

std::string Call::RequestText() const {
  std::string text =
      call_.method + " " + context_.url.path + call_.path + " HTTP/1.1\r\nHost: " + AddressText(context_.url) + "\r\n";
  for (const HttpHeader& header : call_.headers) text += header.name + ": " + header.value + "\r\n";
  if (!call_.body.empty() || call_.method == "POST") {
    text += "Content-Length: " + std::to_string(call_.body.size()) + "\r\n";
  }
  return text + "\r\n" + call_.body;
}

Status Call::ToStatus(const error_code& error) const {
  if (has_hung_up_) return Status::Cancelled("hung up");
  if (has_timed_out_) return Status::IoError("the server has been silent for too long");
  if (error == http::error::end_of_stream || error == http::error::partial_message || error == net::error::eof ||
      error == net::error::connection_reset || error == net::error::broken_pipe) {
    return Status::IoError("the server closed the connection before the end of its reply");
  }
  if (error == http::error::body_limit || error == http::error::header_limit) {
    return Status::IoError("the reply is larger than this client takes");
  }
  return Status::IoError("the reply cannot be read: " + error.message());
}

class HttpClientImpl : public HttpClient {
 public:
  HttpClientImpl(const HttpUrl& url, const HttpClientOptions& options) : context_{.url = url, .options = options} {}
  ~HttpClientImpl() override {
    HangUp();
    keeps_running_.reset();
    if (thread_.joinable()) thread_.join();
  }

  Status Start();
  void Send(HttpCall call, std::unique_ptr<ReplySink> sink) override;
  void RunAt(Clock::time_point when, std::function<void()> action) override;
  void HangUp() override;

 private:
  using Timer = std::shared_ptr<net::steady_timer>;

  void Begin(HttpCall call, std::unique_ptr<ReplySink> sink);
  void Wait(Clock::time_point when, std::function<void()> action);

  Context context_;
  // I/O thread.
  std::unordered_map<Call*, std::shared_ptr<Call>> calls_;
  std::unordered_set<Timer> timers_;
  bool has_hung_up_ = false;

  net::executor_work_guard<net::io_context::executor_type> keeps_running_{context_.io.get_executor()};
  std::thread thread_;
};

Status HttpClientImpl::Start() {
  error_code error;
  tcp::resolver resolver(context_.io);
  const auto found = resolver.resolve(context_.url.host, std::to_string(context_.url.port), error);
  for (const auto& entry : found) context_.endpoints.push_back(entry.endpoint());
  if (error || context_.endpoints.empty()) {
    return Status::Unavailable("the host " + context_.url.host + " has no address: " + error.message());
  }
  try {
    thread_ = std::thread([this] { context_.io.run(); });
  } catch (const std::system_error& failure) {
    return Status::ResourceExhausted(std::string("the client's thread cannot be started: ") + failure.what());
  }
  return Status::Ok();
}

void HttpClientImpl::Send(HttpCall call, std::unique_ptr<ReplySink> sink) {
  net::post(context_.io, [this, call = std::move(call), sink = std::move(sink)]() mutable {
    Begin(std::move(call), std::move(sink));
  });
}

void HttpClientImpl::Begin(HttpCall call, std::unique_ptr<ReplySink> sink) {
  const auto begun = std::make_shared<Call>(context_, std::move(call), std::move(sink));
  calls_.emplace(begun.get(), begun);
  if (has_hung_up_) begun->HangUp();
  net::co_spawn(context_.io, begun->Run(), [this, begun](std::exception_ptr) { calls_.erase(begun.get()); });
}

void HttpClientImpl::RunAt(Clock::time_point when, std::function<void()> action) {
  net::post(context_.io, [this, when, action = std::move(action)]() mutable { Wait(when, std::move(action)); });
}

void HttpClientImpl::Wait(Clock::time_point when, std::function<void()> action) {
  if (has_hung_up_) return;
  const auto timer = std::make_shared<net::steady_timer>(context_.io, when);
  timers_.insert(timer);
  timer->async_wait([this, timer, action = std::move(action)](const error_code& error) {
    timers_.erase(timer);
    if (!error && !has_hung_up_) action();
  });
}

void HttpClientImpl::HangUp() {
  net::post(context_.io, [this] {
    has_hung_up_ = true;
    for (const Timer& timer : timers_) timer->cancel();
    for (const auto& [key, call] : calls_) call->HangUp();
    context_.idle.clear();
  });
}

class CollectingSink : public ReplySink {
 public:
  explicit CollectingSink(std::promise<Result<HttpResponse>> result) : result_(std::move(result)) {}
  void OnHead(const HttpResponse& head) override { response_ = head; }
  void OnBody(std::string_view bytes) override { response_.body += bytes; }
  void OnEnd(const Status& status) override {
    if (status.ok()) {
      result_.set_value(std::move(response_));
    } else {
      result_.set_value(status);
    }
  }

 private:
  std::promise<Result<HttpResponse>> result_;
  HttpResponse response_;
};

Result<uint16_t> ParsePort(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error == std::errc() && end == text.data() + text.size() && port > 0) return port;
  return Status::InvalidArgument("the port is \"" + std::string(text) + "\", expected 1 to 65535");
}

}  // namespace

Result<HttpUrl> ParseHttpUrl(std::string_view text) {
  const std::string whole(text);
  const size_t scheme_end = text.find("://");
  if (scheme_end != std::string_view::npos) {
    const std::string scheme = LowerCase(text.substr(0, scheme_end));
    if (scheme != "http") {
      return Status::Unsupported(whole + ": the scheme is \"" + scheme + "\", and this client speaks http alone");
    }
    text.remove_prefix(scheme_end + 3);
  }
  const bool is_odd = std::ranges::any_of(text, [](char c) { return c <= ' ' || c == 0x7F; });
  if (is_odd || text.find_first_of("?#@") != std::string_view::npos) {
    return Status::InvalidArgument(whole + ": expected an address like http://127.0.0.1:8080");
  }
  HttpUrl url;
  const size_t path = std::min(text.find('/'), text.size());
  url.path = text.substr(path);
  while (url.path.ends_with('/')) url.path.pop_back();
  std::string_view address = text.substr(0, path);
  size_t host_end = std::min(address.find(':'), address.size());
  if (address.starts_with('[')) {
    const size_t bracket = address.find(']');
    if (bracket == std::string_view::npos) return Status::InvalidArgument(whole + ": '[' without ']'");
    url.host = address.substr(1, bracket - 1);
    host_end = bracket + 1;
  } else {
    url.host = address.substr(0, host_end);
  }
  if (url.host.empty())
    return Status::InvalidArgument("\"" + whole + "\" names no host, expected http://127.0.0.1:8080");
  address.remove_prefix(host_end);
  if (address.empty()) return url;
  if (address.front() != ':') return Status::InvalidArgument(whole + ": expected ':' and a port after the host");
  const Result<uint16_t> port = ParsePort(address.substr(1));
  if (!port.ok()) return Status::InvalidArgument(whole + ": " + port.status().message());
  url.port = *port;
  return url;
}

Result<std::unique_ptr<HttpClient>> HttpClient::Create(const HttpUrl& url, const HttpClientOptions& options) {
  auto client = std::make_unique<HttpClientImpl>(url, options);
  KVERN_RETURN_IF_ERROR(client->Start());
  return std::unique_ptr<HttpClient>(std::move(client));
}

Result<HttpResponse> HttpClient::Ask(HttpCall call) {
  std::promise<Result<HttpResponse>> promise;
  std::future<Result<HttpResponse>> result = promise.get_future();
  Send(std::move(call), std::make_unique<CollectingSink>(std::move(promise)));
  return result.get();
}

}  // namespace kvern::server
