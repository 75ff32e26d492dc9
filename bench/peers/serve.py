#!/usr/bin/env python3
"""kvern serve beside llama-server: the same model, the same requests, in turn.

  bench/peers/setup.sh && bench/peers/serve.py --model models/SmolLM2-135M-Instruct.Q4_1.gguf
  bench/peers/serve.py --model models/generated/b-Q4_0.gguf --cases decode shared --rounds 1

Cases:
  first-token  time to the first token of a prompt that nobody has sent before, and of the same prompt again
  decode       tokens/s of 1, 8 and 32 clients with short prompts of their own
  shared       tokens/s of 32 clients whose prompts share their first 2,048 tokens; every server starts empty
  sequences    requests of 2,000 tokens that run at once in 1 GiB of keys and values, by codec
  gaps         between the tokens of a stream, alone and while prompts of 4,000 tokens come one after the other
  never-hits   tokens/s of 8 clients whose prompts are never found, kvern with and without its prefix cache in turn

The load is that of `kvern bench serve`, on both. A round starts one server, measures, ends it, and then the other. The
peer has a slot per client, flash attention and its caches of prompts as they are by default. Medians with their spread
over the rounds; the JSON file has every sample. --plot FILE draws the case first-token.
"""
import argparse
import contextlib
import http.client
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench" / "e2e"))
import plot  # noqa: E402

PEERS = pathlib.Path(os.environ.get("KVERN_PEERS_VENV", ROOT / ".venv-peers"))
LLAMA_SERVER = PEERS / "llama.cpp" / "bin" / "llama-server"
START_S, ANSWER_S = 120, 1200
WARM_S = 3  # An idle server of kvern's makes its memory present.
HITS = 5  # Of each prompt, in each round.
DECODE_CLIENTS = (1, 8, 32)
SHARED_TOKENS, OWN_TOKENS, ANSWER_TOKENS = 2048, 32, 32
SEQUENCE_TOKENS, SEQUENCE_ANSWER = 2000, 16
GAP_PROMPTS, GAP_TOKENS = (4000, 4100, 4200), 900
CODECS = {"f16": "f16", "int8": "q8_0", "int4": "q4_0"}  # Ours, and the nearest of the peer.
GIB = 1 << 30


def progress(words):
    print(f"serve: {words}", file=sys.stderr, flush=True)


class Server:
    """A server that runs while the block does; its output is in self.log."""

    def __init__(self, command):
        self.command = [str(word) for word in command]
        self.log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=START_S)
        self.log.close()

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def wait(self, url_of):
        """The address of the server, once it is healthy; url_of(output) gives it or None."""
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            if url := url_of(self.output()):
                with contextlib.suppress(OSError), urllib.request.urlopen(url + "/health", timeout=5):
                    return url
            time.sleep(0.1)
        sys.exit(f"serve: {' '.join(self.command)} does not serve:\n{self.output()[-2000:]}")


class Kvern:
    name = "kvern"

    def __init__(self, arguments):
        self.base = [arguments.kvern, "serve", "-m", arguments.model, "-t", arguments.threads, "--port", 0,
                     "--access-log", "/dev/null"]

    @contextlib.contextmanager
    def serve(self, clients, context, options=()):
        # The same memory as the peer's slots take, so that nobody waits here for what the peer has reserved.
        budget = [] if "--kv-budget" in options else ["--kv-budget", clients * context * self.token_bytes()]
        command = [*self.base, "--max-sequences", clients, "-c", context, *budget, *options]
        with Server(command) as server:
            yield server.wait(lambda output: (re.findall(r" on (http://\S+)   curl", output) or [None])[0])

    def token_bytes(self):
        info = subprocess.run([self.base[0], "inspect", "--json", self.base[3]], stdout=subprocess.PIPE, check=True)
        return next(row["bytes_per_token"] for row in json.loads(info.stdout)["kv"] if row["kv_type"] == "f16")

    def sequences(self, codec, shared):
        """Requests that run at once out of more than there is room for, as the server counts them."""
        with self.serve(512, 8192, ["--kv-budget", GIB, "--kv-type", codec, "--allow-lossy"]) as url:
            return running_at_once(url, shared)


class Llama:
    name = "llama-server"

    def __init__(self, arguments):
        self.base = [LLAMA_SERVER, "-m", arguments.model, "-t", arguments.threads, "-fa", "on", "--host", "127.0.0.1"]

    @contextlib.contextmanager
    def serve(self, clients, context, options=()):
        port = free_port()
        with Server([*self.base, "--port", port, "-np", clients, "-c", clients * context, *options]) as server:
            yield server.wait(lambda _: f"http://127.0.0.1:{port}")

    def slots(self, codec, context):
        """Slots of `context` tokens in 1 GiB, by the sizes that the server prints for one slot."""
        options = ["-lv", 4, "-np", 1, "-c", context, "-ctk", CODECS[codec], "-ctv", CODECS[codec], "--port", (port := free_port())]
        with Server([*self.base, *options]) as server:
            server.wait(lambda _: f"http://127.0.0.1:{port}")
            sizes = re.findall(r"KV buffer size = +([\d.]+) MiB", server.output())
        if not sizes:
            sys.exit("serve: the peer does not say how large its KV buffer is")
        return math.floor(1024 / sum(map(float, sizes)))


def free_port():
    """One that nobody listens on now; the peer cannot choose by itself."""
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def random_prompt(rng, length):
    return [rng.randrange(1000, 20000) for _ in range(length)]


def stream_times(url, prompt, max_tokens):
    """Seconds from the request to each piece of the answer."""
    host, port = re.match(r"http://([^:]+):(\d+)", url).groups()
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_S)
    body = {"prompt": prompt, "max_tokens": max_tokens, "stream": True, "temperature": 0, "ignore_eos": True}
    begin = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if reply.status != 200:
        sys.exit(f"serve: HTTP {reply.status}: {reply.read().decode(errors='replace')[:500]}")
    times = []
    for line in reply:
        if line.startswith(b"data: {") and b'"error"' not in line:
            times.append(time.perf_counter() - begin)
    connection.close()
    if not times:
        sys.exit("serve: an answer without a token")
    return times


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}


def first_token(sides, arguments):
    """Rows of times in ms: the first time, again, and between two tokens after that."""
    rows = []
    for length in arguments.lengths:
        row = {"case": "first-token", "prompt_tokens": length}
        for side in sides:
            miss, hit, step = [], [], []
            with side.serve(1, 8192) as url:
                rng = random.Random(length)
                stream_times(url, random_prompt(rng, 64), 4)  # Warms; not counted.
                for _ in range(arguments.rounds):
                    prompt = random_prompt(rng, length)
                    miss.append(1000 * stream_times(url, prompt, 1)[0])
                    for _ in range(HITS):
                        times = stream_times(url, prompt, 9)
                        hit.append(1000 * times[0])
                        step.append(1000 * statistics.median(b - a for a, b in zip(times[1:], times[2:])))
            row[side.name] = {"miss_ms": spread(miss), "hit_ms": spread(hit), "step_ms": spread(step)}
        rows.append(row)
        progress(f"first token, {length} tokens done")
    return rows


def load(arguments, url, clients, requests, max_tokens, prompt_tokens, shared_tokens, seed):
    """tok/s of all answers together, as `kvern bench serve` counts them."""
    command = [arguments.kvern, "bench", "serve", url, "--json", "--clients", clients, "--requests", requests, "--seed", seed,
               "--max-tokens", max_tokens, "--prompt-tokens", prompt_tokens, "--shared-tokens", shared_tokens]
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    report = json.loads(result.stdout) if result.returncode == 0 else {}
    if not report or report["requests"]["answered"] != requests:
        sys.exit(f"serve: {' '.join(map(str, command))} failed: {result.stdout[-1000:]}")
    return report["tok_per_s"]


def compare_loads(case, sides, arguments, clients, context, **what):
    row = {"case": case, "clients": clients}
    samples = {side.name: [] for side in sides}
    for number in range(arguments.rounds):
        for side in sides:
            with side.serve(clients, context) as url:
                samples[side.name].append(load(arguments, url, clients, seed=number, **what))
        progress(f"{case}, {clients} clients: {number + 1} of {arguments.rounds} rounds")
    row.update({name: {"tok_per_s": spread(values)} for name, values in samples.items()})
    return row


def decode(sides, arguments):
    return [compare_loads("decode", sides, arguments, clients, 512, requests=max(4, 2 * clients), max_tokens=64,
                          prompt_tokens=16, shared_tokens=0) for clients in DECODE_CLIENTS]


def shared(sides, arguments):
    return [compare_loads("shared", sides, arguments, arguments.clients, 2560, requests=2 * arguments.clients,
                          max_tokens=ANSWER_TOKENS, prompt_tokens=OWN_TOKENS, shared_tokens=SHARED_TOKENS)]


def running_at_once(url, shared_tokens):
    """Asks for far more than there is room for, all different after `shared_tokens`, and sees how many run."""
    host, port = re.match(r"http://([^:]+):(\d+)", url).groups()
    rng, connections, most = random.Random(1), [], 0
    begin = random_prompt(rng, shared_tokens)
    if begin:
        stream_times(url, begin, 1)  # There when the others come.
    for _ in range(400):
        prompt = begin + random_prompt(rng, SEQUENCE_TOKENS - SEQUENCE_ANSWER - shared_tokens)
        connections.append(http.client.HTTPConnection(host, int(port), timeout=ANSWER_S))
        connections[-1].request("POST", "/v1/completions", json.dumps(
            {"prompt": prompt, "max_tokens": SEQUENCE_ANSWER, "ignore_eos": True, "stream": True}))
    for _ in range(20):
        with urllib.request.urlopen(url + "/v1/cache", timeout=60) as reply:
            most = max(most, json.load(reply)["sequences"]["running"])
        time.sleep(0.1)
    for connection in connections:
        connection.close()
    return most


def sequences(sides, arguments):
    rows = []
    ours = next(side for side in sides if side.name == "kvern")
    peer = next((side for side in sides if side.name != "kvern"), None)
    for codec in CODECS:
        row = {"case": "sequences", "codec": codec, "kvern": ours.sequences(codec, 0),
               "kvern, 1,024 tokens shared": ours.sequences(codec, 1024)}
        if peer:
            row["llama-server, 8,192 a slot"] = peer.slots(codec, 8192)
            row["llama-server, 2,048 a slot"] = peer.slots(codec, 2048)
        rows.append(row)
        progress(f"sequences, {codec} done")
    return rows


def gaps_of_stream(url, rng, prompts):
    """ms between the tokens of a stream, from the first of the prompts, which come one after the other, to the last's answer."""
    times, begin = [], time.perf_counter()
    stream = threading.Thread(target=lambda: times.extend(stream_times(url, random_prompt(rng, 16), GAP_TOKENS)))
    stream.start()
    time.sleep(0.5)  # The stream runs when the first prompt comes.
    first = time.perf_counter() - begin
    for prompt in prompts:
        stream_times(url, prompt, 1)
    last = time.perf_counter() - begin if prompts else math.inf
    stream.join()
    return [1000 * (b - a) for a, b in zip(times, times[1:]) if first <= b and a <= last]


def gaps(sides, arguments):
    rows = []
    for name, lengths in (("nothing else", ()), ("beside prompts", GAP_PROMPTS)):
        row = {"case": "gaps", "beside": name}
        for side in sides:
            quantiles = {"p50_ms": [], "p90_ms": [], "p99_ms": [], "max_ms": []}
            with side.serve(2, 8192) as url:
                for number in range(arguments.rounds):
                    rng = random.Random(number)
                    gap = sorted(gaps_of_stream(url, rng, [random_prompt(rng, length) for length in lengths]))
                    for key, share in zip(quantiles, (0.5, 0.9, 0.99, 1)):
                        quantiles[key].append(gap[max(0, math.ceil(share * len(gap)) - 1)])
            row[side.name] = {key: spread(values) for key, values in quantiles.items()}
        rows.append(row)
        progress(f"gaps, {name} done")
    return rows


def never_hits(sides, arguments):
    """Ratios of runs that follow each other, first one way round and then the other, since machines change."""
    ours = next(side for side in sides if side.name == "kvern")
    rates = {"with": [], "without": []}
    for number in range(2 * arguments.rounds):
        ways = [("with", ()), ("without", ("--no-reuse",))]
        for way, options in ways if number % 2 == 0 else reversed(ways):
            with ours.serve(8, 1024, options) as url:
                time.sleep(WARM_S)
                rates[way].append(load(arguments, url, 8, requests=64, max_tokens=64, prompt_tokens=512, shared_tokens=0,
                                       seed=number))
        progress(f"never hits: {number + 1} of {2 * arguments.rounds} pairs")
    ratios = [a / b for a, b in zip(rates["with"], rates["without"])]
    return [{"case": "never-hits", "kvern": {"tok_per_s": spread(rates["with"]), "without_tok_per_s": spread(rates["without"]),
                                             "ratio": spread(ratios)}}]


CASES = {"first-token": first_token, "decode": decode, "shared": shared, "sequences": sequences, "gaps": gaps,
         "never-hits": never_hits}


def cell(values):
    return f"{values['median']:.4g} ({values['min']:.4g} - {values['max']:.4g})"


def show(row):
    name = " ".join(str(row[key]) for key in ("case", "prompt_tokens", "clients", "codec", "beside") if key in row)
    for side, values in row.items():
        if isinstance(values, dict):
            print(f"{name:<24}{side:<14}" + ", ".join(f"{key} {cell(value)}" for key, value in values.items()))
        elif row["case"] == "sequences" and isinstance(values, int):
            print(f"{name:<24}{side:<28}{values:>6}")
    if "tok_per_s" in row.get("llama-server", {}):
        ratio = row["kvern"]["tok_per_s"]["median"] / row["llama-server"]["tok_per_s"]["median"]
        print(f"{name:<24}ratio {ratio:.2f}")


def picture(rows, sides):
    """Time to first token against length, a panel per server: everything computed, and everything found."""
    return plot.svg([(f"{side.name}: ms to first token", "prompt tokens",
                      [(f"{row['prompt_tokens']:,}", {"nothing cached": row[side.name]["miss_ms"],
                                                      "all cached": row[side.name]["hit_ms"]}) for row in rows])
                     for side in sides])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("KVERN_MODEL"))
    parser.add_argument("--kvern", default=str(ROOT / "build" / "release" / "kvern"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[250, 500, 1000, 2000, 4000], help="of first-token")
    parser.add_argument("--clients", type=int, default=32, help="of shared")
    parser.add_argument("--alone", action="store_true", help="measure kvern only")
    parser.add_argument("--json", metavar="FILE", help="write all samples here")
    parser.add_argument("--plot", metavar="FILE", help="an SVG of the case first-token")
    arguments = parser.parse_args()
    if not arguments.model:
        parser.error("no model: give --model FILE or set KVERN_MODEL")
    needed = [(arguments.model, "give --model FILE"), (arguments.kvern, "build kvern or give --kvern FILE")]
    if not arguments.alone:
        needed.append((LLAMA_SERVER, "bench/peers/setup.sh builds it; --alone measures kvern only"))
    for file, remedy in needed:
        if not pathlib.Path(file).exists():
            parser.error(f"{file} is not there: {remedy}")
    return arguments


def main():
    arguments = parse_arguments()
    sides = [Kvern(arguments)] + ([] if arguments.alone else [Llama(arguments)])
    rows = []
    for case in arguments.cases:
        new = CASES[case](sides, arguments)
        rows += new
        for row in new:
            show(row)
        if case == "first-token" and arguments.plot:
            pathlib.Path(arguments.plot).write_text(picture(new, sides), encoding="utf-8")
    if arguments.json:
        report = {"model": arguments.model, "threads": arguments.threads, "results": rows}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
