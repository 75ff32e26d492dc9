#!/usr/bin/env python3
"""Does a server that many clients use, and leave in the middle, lose anything?

  bench/e2e/soak.py                       half an hour, 500 connections at once, at least 10,000 requests
  bench/e2e/soak.py --short               the same in small, for CI: two minutes, 200 connections

Starts `kvern serve` with a cache that is much too small for all, puts `kvern bench serve` on it with random hang-ups, and
then checks that every request ended as it should, that no sequence runs, that every block is free or idle, and that the
memory of the process has stopped growing. Prints the numbers and a verdict; exits with 1 where something is lost.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATES = ("free", "filling", "full", "idle", "demoting")
END_S = 120  # For the server to end in order.
SETTLE_S = 30  # For requests whose client has left to be cancelled.
# The allocator takes and returns memory in steps; a leak of 1 KiB in each of 10,000 requests is more than this.
RSS_STEP_MIB = 4.0
# The server keeps the ids of its last answers, up to a limit that a short run does not reach; so much of each of these.
KEPT_MIB, KEPT_LIMIT_MIB = 1.2 / 1024, 16.0


class Server:
    """A kvern serve, and the memory that it takes second by second."""

    def __init__(self, kvern, model, clients, budget):
        # A busy server notices a while later that a client has left, which is there with a new request by then.
        room = 4 * clients
        limits = ["--max-queued", room, "--tenant-requests", room, "--max-connections", room,
                  "--max-connections-per-address", room]
        command = [kvern, "serve", model, "--port", 0, "--kv-budget", budget, "-c", 512, "--max-sequences", 16,
                   "--access-log", "/dev/null", *limits]
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
        line = self.process.stdout.readline().decode()
        found = re.search(r" on (http://\S+)", line)
        if not found:
            self.process.kill()
            sys.exit(f"soak: the server does not serve: {line!r}")
        self.url = found.group(1)
        self.rss = []  # (seconds, MiB)
        self.stops = threading.Event()
        self.watcher = threading.Thread(target=self.watch)
        self.watcher.start()

    def watch(self):
        begin = time.monotonic()
        while not self.stops.wait(0.5):
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            resident = re.search(r"VmRSS:\s+(\d+)", status)
            if not resident:
                return  # It has ended, and main will say so.
            self.rss.append((time.monotonic() - begin, int(resident.group(1)) / 1024))

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=60) as reply:
            return reply.read().decode()

    def cache(self):
        return json.loads(self.get("/v1/cache"))

    def stop_watching(self):
        self.stops.set()
        self.watcher.join()

    def end(self):
        self.stop_watching()
        self.process.terminate()
        try:
            return self.process.wait(timeout=END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"nothing within {END_S} s, and was killed"


def slope(points):
    """Least squares: (slope, its standard error)."""
    n = len(points)
    mean_x = sum(x for x, _ in points) / n
    mean_y = sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    residual = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in points)
    return rise, (residual / max(n - 2, 1) / spread) ** 0.5


def check_memory(rss, num_answered, complaints):
    """The second half of the run: by then every block and every buffer has been used."""
    half = rss[len(rss) // 2:]
    if len(half) < 8:
        complaints.append(f"only {len(half)} samples of memory: the run was too short to tell")
        return
    rise, error = slope(half)
    seconds = half[-1][0] - half[0][0]
    growth, noise = rise * seconds, max(3 * error * seconds, RSS_STEP_MIB)
    kept = min(KEPT_LIMIT_MIB, KEPT_MIB * num_answered) - min(KEPT_LIMIT_MIB, KEPT_MIB * num_answered / 2)
    print(f"memory: {rss[0][1]:.1f} MiB at the begin, {half[-1][1]:.1f} at the end; in the last {seconds:.0f} s a trend "
          f"of {growth:+.2f} MiB, noise {noise:.2f}, ids of answers {kept:.2f}")
    if growth > noise + kept:
        complaints.append(f"memory grows by {growth:.1f} MiB in {seconds:.0f} s")


def check_load(load, clients, least, complaints):
    requests = load["requests"]
    print(f"requests: {requests['asked']:,} asked, {requests['answered']:,} answered, {requests['hung_up']:,} hung up, "
          f"{requests['failed']:,} failed; at most {load['peak_at_once']} at once; {load['wall_s']:.0f} s, "
          f"{load['tok_per_s']:.0f} tok/s")
    for failure in load["failures"]:
        complaints.append(f"{failure['count']} x {failure['kind']}: {failure['first_message']}")
    if requests["answered"] + requests["hung_up"] != requests["asked"]:
        complaints.append(f"requests do not add up: {requests}")
    if requests["answered"] == 0 or requests["hung_up"] == 0:
        complaints.append("no request was answered, or none was hung up: this shows nothing")
    if requests["asked"] < least:
        complaints.append(f"{requests['asked']:,} requests, expected at least {least:,}")
    if load["peak_at_once"] != clients:
        complaints.append(f"{load['peak_at_once']} requests at once, expected {clients}")


def check_blocks(server, complaints):
    deadline = time.monotonic() + SETTLE_S
    while any(server.cache()["sequences"].values()) and time.monotonic() < deadline:
        time.sleep(0.2)
    cache = server.cache()
    if any(cache["sequences"].values()):
        complaints.append(f"sequences are left: {cache['sequences']}")
    for unit in ("blocks", "bytes"):
        states = {name: cache[unit][name] for name in STATES if name in cache[unit]}
        print(f"{unit}: {cache[unit]['total']:,} in total: " + ", ".join(f"{n:,} {name}" for name, n in states.items()))
        if sum(states.values()) != cache[unit]["total"]:
            complaints.append(f"{unit} are lost: {states} of {cache[unit]['total']}")
        if states["filling"] or states["full"]:
            complaints.append(f"{unit} are held by no sequence: {states}")
    metrics = server.get("/metrics")
    by_state = [int(n) for n in re.findall(r'^kvern_kv_blocks\{state="\w+"\} (\d+)', metrics, re.M)]
    if sum(by_state) != cache["blocks"]["total"]:
        complaints.append(f"/metrics counts {sum(by_state)} blocks of {cache['blocks']['total']}")
    count = {name: int(value) for name, value in re.findall(r"^(kvern_connections\w*) (\d+)", metrics, re.M)}
    print(f"connections: {count['kvern_connections_accepted_total']:,} accepted, "
          f"{count['kvern_connections_refused_total']:,} refused, {count['kvern_connections']} open")
    if count["kvern_connections_refused_total"] > 0:
        complaints.append(f"{count['kvern_connections_refused_total']} connections were refused")
    if count["kvern_connections"] > 2:  # The one that asks, and the one before it, which may be about to close.
        complaints.append(f"{count['kvern_connections']} connections are left open")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kvern", default=str(ROOT / "build" / "release" / "kvern"))
    parser.add_argument("--model", default=str(ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--requests", type=int, default=10_000, help="that have to come about at least")
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=1800, help="after which nothing new is asked")
    parser.add_argument("--disconnect-share", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", default="", help="to cut prompts from; default: Debian's FAQ")
    parser.add_argument("--short", action="store_true", help="two minutes, 200 connections, at least 1,000 requests")
    options = parser.parse_args()
    if options.short:
        options.clients, options.seconds, options.requests = 200, 120, 1000
    server = Server(options.kvern, options.model, options.clients, "64MiB")
    complaints = []
    try:
        load = subprocess.run([options.kvern, "bench", "serve", server.url, "--json",
                               "--duration", str(options.seconds),
                               "--clients", str(options.clients), "--prompt-tokens", "24", "--shared-tokens", "80",
                               "--max-tokens", "8", "--turns", "2", "--seed", str(options.seed), "--text", options.text,
                               "--disconnect-share", str(options.disconnect_share)], stdout=subprocess.PIPE)
        if load.returncode != 0:
            complaints.append(f"kvern bench serve ended with {load.returncode}")
        server.stop_watching()
        report = json.loads(load.stdout or "null")
        if report:
            check_load(report, options.clients, options.requests, complaints)
        if server.process.poll() is None:
            check_blocks(server, complaints)
            check_memory(server.rss, report["requests"]["answered"] if report else 0, complaints)
    finally:
        code = server.end()
    if code != 0:
        complaints.append(f"the server ended with {code}")
    for complaint in complaints:
        print(f"LOST: {complaint}")
    print("verdict: " + ("something is lost" if complaints else "nothing is lost"))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
