#!/usr/bin/env python3
"""`kvern serve` as clients meet it: streams, disconnects, signals, keys, clients that behave badly.

  tests/e2e/serve_test.py build/release/kvern [unittest options]

Needs SmolLM2 in models/ (scripts/fetch_model.sh smollm2); skipped without it.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
KVERN = str(ROOT / "build" / "release" / "kvern")
PROMPT = "The capital of France is"
DEADLINE = 120  # Seconds; for things that take a fraction of one.


def kvern_cache(action, port, *arguments, path=""):
    url = [] if "--url" in arguments else ["--url", f"http://127.0.0.1:{port}{path}"]
    return subprocess.run([KVERN, "cache", action, *url, *arguments], capture_output=True, text=True, timeout=DEADLINE)


class Server:
    """A running `kvern serve`. `ready`: waits until the model is there."""

    def __init__(self, *arguments, ready=True):
        self.process = subprocess.Popen([KVERN, "serve", str(MODEL), "--port", "0", "--threads", "2", *map(str, arguments)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.stderr = []
        self.port = None
        self.listening = threading.Event()
        self.reader = threading.Thread(target=self.read_stderr, daemon=True)
        self.reader.start()
        if not self.listening.wait(DEADLINE):
            raise AssertionError("".join(self.stderr))
        self.ready_line = self.process.stdout.readline() if ready else None

    def read_stderr(self):
        for line in iter(self.process.stderr.readline, ""):
            self.stderr.append(line)
            if match := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(match.group(1))
                self.listening.set()
        self.listening.set()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(DEADLINE)
        self.close()
        return code

    def close(self):
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()

    def request(self, method, path, body=None, headers=None):
        """(status, parsed body, headers)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(body) if body is not None else None, headers or {})
            response = connection.getresponse()
            data = response.read()
            is_json = response.getheader("Content-Type", "").startswith("application/json")
            return response.status, json.loads(data) if is_json else data.decode(), response.headers

    def complete(self, **fields):
        status, body, _ = self.request("POST", "/v1/completions", {"prompt": PROMPT, "temperature": 0, **fields})
        assert status == 200, body
        return body

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE)

    def stream(self, **fields):
        """An open connection on which a stream has begun."""
        body = json.dumps({"prompt": PROMPT, "temperature": 0, "stream": True, "ignore_eos": True, **fields}).encode()
        connection = self.connect()
        connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        seen = b""
        while b"data: " not in seen:
            seen += connection.recv(4096)
        return connection, seen

    def await_idle(self):
        """The state of the cache once no sequence runs."""
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            cache = self.request("GET", "/v1/cache")[1]
            if cache["sequences"] == {"running": 0, "queued": 0}:
                return cache
            time.sleep(0.02)
        raise AssertionError(cache)


def read_all(connection):
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


@unittest.skipUnless(MODEL.exists(), f"{MODEL.name} is not in models/: scripts/fetch_model.sh smollm2")
class ServeTest(unittest.TestCase):
    ARGUMENTS = ["--kv-budget", "400MiB", "--header-timeout", "1.5"]

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGUMENTS)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop(signal.SIGKILL)


class Answers(ServeTest):
    def test_the_ready_line_has_an_example_that_works(self):
        example = self.server.ready_line[self.server.ready_line.index("curl "):]
        result = subprocess.run(shlex.split(example) + ["-s"], capture_output=True, timeout=DEADLINE, check=True)
        self.assertIn("Paris", json.loads(result.stdout)["choices"][0]["text"])

    def test_the_examples_of_the_documentation_work(self):
        text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "serving.md").read_text()
        examples = re.findall(r"```sh\n(curl .*?)```", text, re.DOTALL)
        self.assertGreaterEqual(len(examples), 6)
        for example in examples:
            command = shlex.split(example.replace("127.0.0.1:8080", f"127.0.0.1:{self.server.port}").replace("\\\n", " "))
            result = subprocess.run(command + ["-sS", "--fail"], capture_output=True, text=True, timeout=DEADLINE)
            self.assertEqual(result.returncode, 0, f"{example}\n{result.stderr}{result.stdout}")
            self.assertNotIn('"error"', result.stdout)

    def test_what_was_computed_once_is_found_and_told(self):
        prompt = "A mill by the river grinds rye for the whole valley, and once for good."
        first = self.server.complete(prompt=prompt, max_tokens=8)
        second = self.server.complete(prompt=prompt + first["choices"][0]["text"] + " Then", max_tokens=2)
        num_first = first["usage"]["prompt_tokens"]
        self.assertEqual(first["timings"]["prompt_causes"]["first_time"], num_first)
        self.assertGreaterEqual(second["timings"]["prompt_causes"]["found"], num_first)
        self.assertEqual(sum(second["timings"]["prompt_causes"].values()), second["usage"]["prompt_tokens"])
        other = self.server.complete(prompt=prompt.replace("rye", "oats"), max_tokens=1)["timings"]["divergence"]
        self.assertIn("rye", other["cached"])
        self.assertIn("oats", other["prompt"])
        listed = self.server.request("GET", "/v1/cache/requests")[1]["data"]
        self.assertEqual(listed[0]["divergence"], other)

    def test_kvern_cache_shows_what_the_server_says(self):
        self.server.complete(prompt="What was asked last.", max_tokens=1)
        cache = self.server.request("GET", "/v1/cache")[1]
        result = kvern_cache("ls", self.server.port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("(everybody)", result.stdout)
        self.assertIn(f"{cache['blocks']['idle']:,} idle", result.stdout)
        self.assertIn("0 sequences running, 0 waiting", result.stdout)
        causes = [cache["prompts"][name] for name in
                  ("hit_tokens", "first_time_tokens", "evicted_tokens", "diverged_tokens", "last_tokens")]
        self.assertIn(f"{sum(causes):,} prompt tokens: {causes[0]:,} found", result.stdout)
        last = self.server.request("GET", "/v1/cache/requests")[1]["data"][0]
        self.assertIn(f"{last['request_id']}: {last['prompt_tokens']} prompt tokens: ",
                      kvern_cache("why", self.server.port, path="/v1").stdout)

    def test_kvern_cache_says_what_is_wrong(self):
        for arguments, code, message in (
                (["--api-key", "a\r\nX: y"], 2, "--api-key: expected printable ASCII"),
                (["--url", "https://127.0.0.1"], 2, 'the scheme is "https"'),
                (["--url", ""], 2, '"" names no host'),
                (["--url", "http://127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1: Connection refused; is a server"),
                (["--url", f"http://127.0.0.1:{self.server.port}/base"], 1, "HTTP 404: there is no /base/v1/cache"),
                (["--url", f"http://127.0.0.1:{self.server.port}/metrics?"], 2, "expected an address")):
            result = kvern_cache("ls", self.server.port, *arguments)
            self.assertEqual(result.returncode, code, arguments)
            self.assertIn(message, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_the_text_is_that_of_kvern_run(self):
        run = subprocess.run([KVERN, "run", "-m", str(MODEL), PROMPT, "-n", "24", "--json"], capture_output=True, check=True)
        expected = json.loads(run.stdout)
        self.assertEqual(self.server.complete(max_tokens=24)["choices"][0]["text"], expected["text"])
        by_ids = self.server.complete(prompt=expected["prompt_ids"], max_tokens=24)
        self.assertEqual(by_ids["choices"][0]["text"], expected["text"])

    def test_a_stream_is_the_same_text_in_pieces(self):
        whole = self.server.complete(max_tokens=24)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=DEADLINE)
        connection.request("POST", "/v1/completions",
                           json.dumps({"prompt": PROMPT, "temperature": 0, "max_tokens": 24, "stream": True,
                                       "stream_options": {"include_usage": True}}))
        response = connection.getresponse()
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream; charset=utf-8")
        events = [line[6:] for line in response.read().decode().splitlines() if line.startswith("data: ")]
        connection.close()
        self.assertEqual(events.pop(), "[DONE]")
        chunks = [json.loads(event) for event in events]
        usage = chunks.pop()["usage"]
        self.assertEqual(usage["completion_tokens"], whole["usage"]["completion_tokens"])
        self.assertEqual(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] - 1)
        self.assertGreater(len(chunks), 5)
        self.assertEqual("".join(chunk["choices"][0]["text"] for chunk in chunks), whole["choices"][0]["text"])

    def test_thirty_two_clients_at_once_get_what_each_gets_alone(self):
        prompts = [f"{PROMPT} Paris. The number {i} is" for i in range(32)]
        alone = [self.server.complete(prompt=prompt, max_tokens=8)["choices"][0]["text"] for prompt in prompts]
        together = [None] * 32

        def ask(i):
            together[i] = self.server.complete(prompt=prompts[i], max_tokens=8)["choices"][0]["text"]

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)

    def test_a_chat_goes_through_the_template_of_the_model(self):
        messages = [{"role": "user", "content": "What is the capital of France?"}]
        status, rendered, _ = self.server.request("POST", "/apply-template", {"messages": messages})
        self.assertEqual(status, 200)
        self.assertIn("<|im_start|>user\nWhat is the capital of France?<|im_end|>", rendered["prompt"])
        status, answer, _ = self.server.request("POST", "/v1/chat/completions",
                                                {"messages": messages, "temperature": 0, "max_tokens": 32})
        self.assertEqual(status, 200)
        same = self.server.complete(prompt=rendered["prompt"], max_tokens=32)
        self.assertEqual(answer["choices"][0]["message"]["content"], same["choices"][0]["text"])
        self.assertEqual(answer["choices"][0]["finish_reason"], same["choices"][0]["finish_reason"])
        self.assertEqual(answer["usage"]["completion_tokens"], same["usage"]["completion_tokens"])
        # The same prompt again: all but its last token are found.
        self.assertEqual(same["usage"]["prompt_tokens_details"]["cached_tokens"], same["usage"]["prompt_tokens"] - 1)

    def test_unknown_things_are_named(self):
        status, body, _ = self.server.request("POST", "/v1/completions", {"prompt": "x", "model": "gpt-9"})
        self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
        self.assertEqual(self.server.request("GET", "/nothing")[0], 404)
        self.assertEqual(self.server.request("GET", "/v1/completions")[0], 405)

    def test_a_prompt_of_ten_megabytes_is_refused_quickly(self):
        begin = time.monotonic()
        status, body, _ = self.server.request("POST", "/v1/completions", {"prompt": "word " * 2_000_000})
        self.assertEqual((status, body["error"]["code"]), (400, "context_length_exceeded"))
        self.assertLess(time.monotonic() - begin, 30)

    def test_metrics_are_in_the_format_of_prometheus(self):
        self.server.complete(max_tokens=2)
        text = self.server.request("GET", "/metrics")[1]
        documented = (ROOT / "docs" / "serving.md").read_text()
        kinds, helped, samples = {}, [], []
        for line in text.splitlines():
            if match := re.fullmatch(r"# HELP (kvern_\w+) \S.*", line):
                helped.append(match.group(1))
            elif match := re.fullmatch(r"# TYPE (kvern_\w+) (counter|gauge|histogram)", line):
                self.assertNotIn(match.group(1), kinds)
                kinds[match.group(1)] = match.group(2)
            else:
                match = re.fullmatch(r'(kvern_\w+)(\{\w+="[^"\\\n]*"(?:,\w+="[^"\\\n]*")*\})? ([-+.e\d]+)', line)
                self.assertIsNotNone(match, line)
                samples.append((match.group(1), match.group(2) or "", float(match.group(3))))
        self.assertEqual(helped, list(kinds))
        self.assertEqual(len(samples), len({(name, labels) for name, labels, _ in samples}))
        for name, kind in kinds.items():
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
            self.assertIn(f"`{name}", documented)
            if kind == "histogram":
                buckets = [value for sample, _, value in samples if sample == name + "_bucket"]
                self.assertEqual(buckets, sorted(buckets))
                self.assertEqual([buckets[-1]], [value for sample, _, value in samples if sample == name + "_count"])
        families = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in kinds else name for name, _, _ in samples}
        self.assertEqual(families, set(kinds))
        self.assertRegex(text, r"\nkvern_generated_tokens_total [1-9]")


class BadClients(ServeTest):
    def test_a_client_that_leaves_is_cancelled(self):
        connection, _ = self.server.stream(max_tokens=4000)
        connection.close()
        cache = self.server.await_idle()
        self.assertEqual(cache["blocks"]["filling"], 0)
        self.assertRegex(self.server.request("GET", "/metrics")[1], r"\nkvern_requests_cancelled_total [1-9]")

    def test_a_client_that_leaves_during_prefill_is_cancelled(self):
        before = self.server.await_idle()["tokens"]["computed"]
        body = json.dumps({"prompt": "word " * 7000, "max_tokens": 1000, "ignore_eos": True}).encode()
        with self.server.connect() as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            while self.server.request("GET", "/v1/cache")[1]["sequences"]["running"] == 0:
                time.sleep(0.005)
        computed = self.server.await_idle()["tokens"]["computed"] - before
        self.assertLess(computed, 7000)
        last = self.server.request("GET", "/v1/cache/requests")[1]["data"][0]
        self.assertEqual(last["prompt_tokens"], len(self.server.request("POST", "/tokenize", {"content": "word " * 7000})[1]["tokens"]))

    def test_uploads_that_do_not_go_on_do_not_stop_others(self):
        silent = [self.server.connect() for _ in range(40)]
        for i, connection in enumerate(silent):
            length = b"Transfer-Encoding: chunked" if i % 2 else b"Content-Length: 16000000"
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nExpect: 100-continue\r\n" + length + b"\r\n\r\n")
            self.assertIn(b" 100 ", connection.recv(100))
        self.assertEqual(self.server.complete(max_tokens=1, user="x" * 200_000)["usage"]["completion_tokens"], 1)
        for connection in silent:
            connection.close()

    def test_slow_heads_and_idle_connections_do_not_stop_others(self):
        slow = [self.server.connect() for _ in range(100)]
        for connection in slow:
            connection.sendall(b"GET /health HT")
        self.assertIn("Paris", self.server.complete(max_tokens=4)["choices"][0]["text"])
        for connection in slow:
            self.assertIn(b" 408 ", read_all(connection).splitlines()[0])
            connection.close()

    def test_a_flood_of_connections_leaves_the_server_alive(self):
        flood = []
        for _ in range(900):
            flood.append(self.server.connect())
        refused = 0
        for connection in flood[768:]:
            with contextlib.suppress(ConnectionError):
                refused += b" 429 " in connection.recv(100)
        for connection in flood:
            connection.close()
        self.assertGreater(refused, 0)
        end = time.monotonic() + DEADLINE
        while True:  # Until the server has seen that they are gone.
            with contextlib.suppress(AssertionError, OSError, http.client.HTTPException):
                self.assertIn("Paris", self.server.complete(max_tokens=4)["choices"][0]["text"])
                break
            self.assertLess(time.monotonic(), end)

    def test_pipelined_requests_and_http_1_0(self):
        with self.server.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\n\r\nGET /nothing HTTP/1.1\r\n\r\nGET /health HTTP/1.0\r\n\r\n")
            statuses = re.findall(rb"HTTP/1\.1 (\d+)", read_all(connection))
        self.assertEqual(statuses, [b"200", b"404", b"200"])

    def test_chunked_requests(self):
        body = json.dumps({"prompt": PROMPT, "temperature": 0, "max_tokens": 4}).encode()
        with self.server.connect() as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
            for byte in range(0, len(body), 7):
                piece = body[byte:byte + 7]
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            connection.sendall(b"0\r\n\r\n")
            self.assertIn(b"Paris", read_all(connection))

    def test_what_is_no_proper_request_gets_an_error(self):
        for request, status in [(b"POST /tokenize HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400"),
                                (b"POST /tokenize HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"400"),
                                (b"POST /tokenize HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
                                (b"POST /tokenize HTTP/1.1\r\nContent-Length: 3\r\n\r\n{\xff}", b"400"),
                                (b"POST /tokenize HTTP/1.1\r\nContent-Length: 3\r\n\r\n{\0}", b"400"),
                                (b"GET / HTTP/1.1\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n", b"431"),
                                (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n", b"400")]:  # The begin of TLS.
            with self.server.connect() as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                reply = read_all(connection)
            self.assertEqual(re.match(rb"HTTP/1\.1 (\d+)", reply).group(1), status, request[:60])
            self.assertIn(b'{"error":{"message":', reply)


@unittest.skipUnless(MODEL.exists(), f"{MODEL.name} is not in models/: scripts/fetch_model.sh smollm2")
class Life(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self.temporary.name)
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.stop(signal.SIGKILL)
        self.temporary.cleanup()

    def start(self, *arguments, **options):
        self.servers.append(Server(*arguments, **options))
        return self.servers[-1]

    def fails(self, *arguments):
        result = subprocess.run([KVERN, "serve", str(MODEL), *map(str, arguments)], capture_output=True, text=True,
                                timeout=DEADLINE)
        return result.returncode, result.stderr

    def test_sigterm_lets_a_stream_come_to_its_end(self):
        server = self.start()
        connection, seen = server.stream(max_tokens=100)
        self.addCleanup(connection.close)
        server.process.send_signal(signal.SIGTERM)
        self.assertTrue((seen + read_all(connection)).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"))
        self.assertEqual(server.process.wait(DEADLINE), 0)

    def test_a_stream_that_takes_too_long_is_told_that_the_server_ends(self):
        server = self.start("--drain", "0.2")
        connection, seen = server.stream(max_tokens=8000)
        self.addCleanup(connection.close)
        server.process.send_signal(signal.SIGINT)
        text = seen + read_all(connection)
        self.assertIn(b'"code":"shutting_down"', text)
        self.assertTrue(text.endswith(b"0\r\n\r\n"))
        self.assertEqual(server.process.wait(DEADLINE), 0)

    def test_the_second_ctrl_c_ends_it_at_once(self):
        server = self.start("--drain", "100")
        connection, _ = server.stream(max_tokens=8000)
        self.addCleanup(connection.close)
        server.process.send_signal(signal.SIGINT)
        while not any("ending" in line for line in server.stderr):
            time.sleep(0.01)
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(DEADLINE), -signal.SIGINT)

    def test_while_the_model_loads_it_says_so(self):
        server = self.start(ready=False)
        status, body, headers = server.request("GET", "/health")
        if status == 200:
            self.skipTest("the model was there before the first request")
        self.assertEqual((status, body["error"]["message"]), (503, "Loading model"))
        self.assertEqual(server.request("POST", "/v1/completions", {"prompt": "x"})[0], 503)

    def test_keys_are_needed_where_there_are_some(self):
        keys = self.directory / "keys.txt"
        keys.write_text("# who\nalice alice-secret\nroot root-secret admin\n")
        keys.chmod(0o644)
        server = self.start("--api-keys", keys)
        request = {"prompt": PROMPT, "max_tokens": 2}
        self.assertEqual(server.request("POST", "/v1/completions", request)[0], 401)
        self.assertEqual(server.request("POST", "/v1/completions", request, {"Authorization": "Bearer no"})[0], 401)
        self.assertEqual(server.request("POST", "/v1/completions", request, {"Authorization": "Bearer alice-secret"})[0], 200)
        self.assertEqual(server.request("GET", "/metrics", headers={"X-Api-Key": "alice-secret"})[0], 403)
        self.assertEqual(server.request("GET", "/metrics", headers={"X-Api-Key": "root-secret"})[0], 200)
        self.assertEqual(server.request("GET", "/health")[0], 200)
        self.assertIn("HTTP 401", kvern_cache("ls", server.port, "--api-key", "no").stderr)
        self.assertIn("HTTP 403", kvern_cache("ls", server.port, "--api-key", "alice-secret").stderr)
        self.assertIn("alice", kvern_cache("ls", server.port, "--api-key", "root-secret").stdout)
        self.assertIn("are free again", kvern_cache("clear", server.port, "--api-key", "root-secret").stdout)
        self.assertTrue(any("can read" in line and "chmod 600" in line for line in server.stderr), server.stderr)

    def time_to_first_token(self, server, key, prompt):
        """(milliseconds, tokens found in the cache)."""
        status, body, _ = server.request("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 1, "temperature": 0},
                                         {"Authorization": "Bearer " + key})
        self.assertEqual(status, 200, body)
        return body["timings"]["prompt_ms"], body["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_time_does_not_tell_what_other_tenants_have_cached(self):
        keys = self.directory / "keys.txt"
        keys.write_text("ann ann-secret\nben bens-secret\ncid cids-secret cache=team\ndan dans-secret cache=team\n")
        server = self.start("--api-keys", keys, "--kv-budget", "800MiB")
        fresh, others, own, group = [], [], [], []
        for i in range(3):
            prompt = "ABC"[i] + "." + " The mill grinds what the farmers bring it." * 110  # Some 1,000 tokens.
            fresh.append(self.time_to_first_token(server, "ann-secret", prompt))
            others.append(self.time_to_first_token(server, "bens-secret", prompt))
            own.append(self.time_to_first_token(server, "ann-secret", prompt))
            self.time_to_first_token(server, "cids-secret", prompt)
            group.append(self.time_to_first_token(server, "dans-secret", prompt))
        for kind in fresh, others:
            self.assertEqual([found for _, found in kind], [0, 0, 0])
        for kind in own, group:
            self.assertGreater(min(found for _, found in kind), 900)
        best = {name: min(ms for ms, _ in kind) for name, kind in
                [("fresh", fresh), ("others", others), ("own", own), ("group", group)]}
        self.assertGreater(best["others"], best["fresh"] / 2, best)
        self.assertLess(best["own"], best["fresh"] / 4, best)
        self.assertLess(best["group"], best["fresh"] / 4, best)

    def test_a_full_disk_under_the_log_stops_nothing(self):
        server = self.start("--access-log", "/dev/full")
        for _ in range(3):
            server.complete(max_tokens=1)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(sum("/dev/full cannot be written" in line for line in server.stderr), 1)

    def test_a_prompt_that_is_no_json_is_not_in_the_log(self):
        log = self.directory / "access.jsonl"
        server = self.start("--access-log", log)
        with server.connect() as connection:
            connection.sendall(b'POST /v1/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 21\r\n\r\n{"prompt": "my secret')
            self.assertIn(b" 400 ", read_all(connection))
        self.assertEqual(server.stop(), 0)
        line = json.loads(log.read_text())
        self.assertIn("missing closing quote", line["error"])
        self.assertNotIn("secret", log.read_text())

    def test_the_log_has_a_line_per_request_and_prompts_only_if_asked(self):
        for extra, expected in ([], False), (["--log-prompts"], True):
            log = self.directory / f"access{len(extra)}.jsonl"
            server = self.start("--access-log", log, *extra)
            server.complete(max_tokens=2)
            server.request("POST", "/v1/completions", {"prompt": PROMPT, "n": "x"}, {"X-Request-Id": "my-id"})
            self.assertEqual(server.stop(), 0)
            lines = [json.loads(line) for line in log.read_text().splitlines()]
            self.assertEqual([line["status"] for line in lines], [200, 400])
            self.assertEqual((lines[0]["prompt_tokens"], lines[0]["completion_tokens"]), (5, 2))
            self.assertEqual(lines[1]["request_id"], "my-id")
            self.assertIn("n: expected an integer", lines[1]["error"])
            self.assertEqual(PROMPT in log.read_text(), expected)

    def test_what_cannot_work_fails_at_the_start(self):
        server = self.start()
        code, message = self.fails("--port", server.port)
        self.assertEqual(code, 1)
        self.assertIn(f"port {server.port}: another program listens there", message)
        code, message = self.fails("--port", "0", "--access-log", self.directory)
        self.assertEqual(code, 1)
        self.assertIn("cannot be written", message)
        code, message = self.fails("--port", "0", "--api-keys", self.directory / "absent")
        self.assertEqual(code, 1)
        self.assertIn("absent cannot be read", message)
        self.assertEqual(self.fails("--max-body", "much")[0], 2)
        self.assertEqual(self.fails("--drain", "0")[0], 2)
        self.assertEqual(self.fails("--port", "70000")[0], 2)
        self.assertEqual(self.fails("--tenant-requests", "0")[0], 2)
        code, message = self.fails("--cors-origin", "*")
        self.assertEqual(code, 2)
        self.assertIn("cors_origin is '*', expected one origin", message)
        code, message = self.fails("--idle-timeout", "-1")
        self.assertIn("--idle-timeout is -1", message)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KVERN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
