#!/usr/bin/env bash
# A server under load: clients at the same time get the tokens that each gets alone, malformed requests are refused and harm
# nobody, clients that leave free their places, and SIGTERM ends it with status 0; on one rank and on a grid. Needs a build with
# the features `serve` and `tokenizers`, and python3.
# Its page is tried in a browser where there are chromium and playwright.
# Arguments: malformed requests (default 300), clients (default 64), and for how many seconds these go on asking (default 0, else at
# least 8). Then the server's memory, open files and threads are read every second, after two minutes in which its allocator's arenas
# fill. From the second quarter of the time to the last, memory may grow by 2 %; files and threads may not exceed those of the first.
# FASCICLE: the program, default target/release/fascicle.
set -euo pipefail
fascicle=${FASCICLE:-$PWD/target/release/fascicle}
malformed=${1:-300} clients=${2:-64} seconds=${3:-0}
if [ "$seconds" -ne 0 ] && [ "$seconds" -lt 8 ]; then
  printf 'serve: found %s seconds, needs 0, or at least 8\n' "$seconds" >&2
  exit 2
fi
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$dir"' EXIT
fail() { printf 'serve: %s\n' "$1" >&2; cat "$dir/log" >&2; exit 1; }
for _ in $(seq 400); do echo 'the quick brown fox jumps over the lazy dog'; done >"$dir/text.txt"
"$fascicle" train --data "$dir/text.txt" --batch 4 --micro-batches 1 --set model.hidden=64 --set model.layers=2 --set model.heads=2 \
  --set model.context=64 --set training.validation_batches=1 --grid x=1 --steps 20 --out "$dir/run" >"$dir/log" 2>&1 || fail 'no model'

echo '{% for message in messages %}{{ message.content }}.{% endfor %}' >"$dir/chat.jinja"

cat >"$dir/clients.py" <<'PYTHON'
"""Clients of the server at argv[1], of process argv[5]: argv[2] malformed requests, argv[3] good ones at the same time, which go
on for argv[4] seconds."""
import http.client, json, os, random, statistics, sys, threading, time
host = sys.argv[1].removeprefix("http://")
malformed, clients, seconds, server = map(int, sys.argv[2:])
rng = random.Random(1)

def ask(body, path="/v1/completions", method="POST", kind="application/json"):
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request(method, path, body, {"Content-Type": kind} if method == "POST" else {})
    reply = connection.getresponse()
    status, text = reply.status, reply.read()
    connection.close()
    return status, text

def complete(seed, **fields):
    body = {"prompt": f"the quick {seed}", "max_tokens": 40, "seed": seed, **fields}
    while True:
        status, text = ask(json.dumps(body))
        if status == 429:
            time.sleep(0.05)
            continue
        assert status == 200, (status, text)
        return json.loads(text)["choices"][0]["text"]

def broken():
    """A body that was good, or bytes that never were."""
    good = json.dumps({"prompt": "the", "max_tokens": 2, "temperature": 0.5, "stop": ["a"], "stream": False, "n": 1}).encode()
    way = rng.randrange(5)
    if way == 0:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    if way == 1:
        return good[: rng.randrange(len(good))]
    if way == 2:
        at = rng.randrange(len(good))
        return good[:at] + bytes([rng.randrange(256)]) + good[at + 1 :]
    values = [None, -1, 1e300, "x", [], {}, [[]], True, "é" * 50, 2**64, -(2**63), [1e9], {"a": [{}]}]
    names = ["prompt", "max_tokens", "temperature", "top_p", "n", "seed", "stop", "stream", "logprobs", "tools", "echo", "new"]
    body = json.loads(good)
    for _ in range(rng.randrange(1, 4)):
        body[rng.choice(names)] = rng.choice(values)
    return json.dumps(body).encode()

alone = [complete(seed) for seed in range(clients)]
beside = [None] * clients
def client(seed):
    beside[seed] = complete(seed)
threads = [threading.Thread(target=client, args=(seed,)) for seed in range(clients)]
for thread in threads:
    thread.start()
statuses = {}
for _ in range(malformed):
    path = rng.choice(["/v1/completions", "/v1/chat/completions"])
    status, text = ask(broken(), path)
    # Some are good by chance.
    assert status == 200 or 400 <= status < 500, (status, text)
    assert status == 200 or json.loads(text)["error"]["message"], text
    statuses[status] = statuses.get(status, 0) + 1
for thread in threads:
    thread.join()
assert beside == alone, "clients at the same time got other tokens"

# Clients that leave in the middle.
for _ in range(10):
    connection = http.client.HTTPConnection(host, timeout=60)
    body = json.dumps({"prompt": "a", "max_tokens": 100000, "stream": True})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    connection.getresponse().read(10)
    connection.close()
for _ in range(200):
    page = ask(None, "/metrics", "GET")[1].decode()
    if "fascicle_running_sequences 0\n" in page and "fascicle_waiting_sequences 0\n" in page:
        break
    time.sleep(0.05)
else:
    sys.exit("clients that left still have their places:\n" + page)
assert complete(0) == alone[0]
print(f"{clients} clients, {malformed} malformed requests answered with {statuses}, 10 that left")
if seconds == 0:
    sys.exit()

def held():
    """Bytes of memory, open files and threads of the server."""
    lines = dict(line.split(":", 1) for line in open(f"/proc/{server}/status"))
    return (int(lines["VmRSS"].split()[0]) * 1024, len(os.listdir(f"/proc/{server}/fd")), int(lines["Threads"]))

def streamed(draw):
    """One request of any length, whose answer is read as it comes; one of ten leaves in the middle. Whether it had a place."""
    asked = draw.randrange(1, 80)
    body = {"prompt": "the quick " * draw.randrange(1, 9), "max_tokens": asked, "seed": draw.randrange(1000), "stream": True}
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status in (200, 429), (reply.status, reply.read())
    leaves, events = draw.randrange(10) == 0, 0
    while reply.status == 200 and (line := reply.readline()):
        events += line.startswith(b"data: {")
        if leaves and events == asked // 2:
            break
    connection.close()
    if reply.status == 429:
        time.sleep(0.05)
    return reply.status == 200

def generated():
    """Tokens, as the server counts them."""
    page = ask(None, "/metrics", "GET")[1].decode()
    return int(page.split("\nfascicle_generated_tokens_total ")[1].split()[0])

warm = time.monotonic() + 120
until, waits, failures = warm + seconds, [], []
def go_on(seed):
    draw = random.Random(seed)
    try:
        while time.monotonic() < until:
            start = time.monotonic()
            if streamed(draw):
                waits.append(time.monotonic() - start)
    except Exception as error:
        failures.append(error)
threads = [threading.Thread(target=go_on, args=(seed,)) for seed in range(clients)]
for thread in threads:
    thread.start()
time.sleep(max(0, warm - time.monotonic()))
before, samples = generated(), []
waits.clear()
while time.monotonic() < until:
    time.sleep(1)
    samples.append(held())
for thread in threads:
    thread.join()
assert not failures, failures[0]
time.sleep(1)
after, quarter = held(), len(samples) // 4
memory, files, tasks = zip(*samples)
# Medians of the second and of the last quarter.
early, late = (statistics.median(part) for part in (memory[quarter:2 * quarter], memory[-quarter:]))
assert late <= 1.02 * early, f"memory grows from {early / 2**20:.1f} to {late / 2**20:.1f} MiB"
assert max(files[-quarter:]) <= max(files[:quarter]) + 2 and after[1] < files[quarter], f"open files: {files[::quarter]}, {after[1]}"
assert max(tasks[-quarter:]) <= max(tasks[:quarter]), f"threads: {tasks[::quarter]}"
waits.sort()
print(f"{seconds} s of {clients} clients: {len(waits)} answers, {(generated() - before) / seconds:.0f} tokens a second, "
      f"{waits[len(waits) // 2]:.2f} s each ({waits[len(waits) * 99 // 100]:.2f} s for 99 of 100); "
      f"memory {early / 2**20:.1f} and {late / 2**20:.1f} MiB (medians of the second and last quarter), "
      f"files {max(files[:quarter])} and {max(files[-quarter:])}, {after[1]} afterwards, threads {tasks[quarter]} and {tasks[-1]}")
PYTHON

for grid in x=1 x=2; do
  rm -f "$dir/address"
  "$fascicle" serve --checkpoint "$dir/run" --port 0 --grid "$grid" --most-tokens 200000 --chat-template "$dir/chat.jinja" >"$dir/address" 2>"$dir/log" &
  server=$!
  for _ in $(seq 200); do [ -s "$dir/address" ] && break; sleep 0.1; done
  [ -s "$dir/address" ] || fail "$grid: no address"
  python3 "$dir/clients.py" "$(cat "$dir/address")" "$malformed" "$clients" "$seconds" "$server" >"$dir/said" 2>>"$dir/log" || fail "$grid: a client failed"
  if command -v chromium >/dev/null && python3 -c 'import playwright' 2>/dev/null; then
    python3 ci/serve-page.py "$(cat "$dir/address")" >>"$dir/said" 2>>"$dir/log" || fail "$grid: its page"
  else
    echo 'skipped: its page, because chromium or playwright is not there' >>"$dir/said"
  fi
  kill -TERM "$server"
  status=0
  wait "$server" || status=$?
  server=
  [ "$status" -eq 0 ] || fail "$grid: status $status after SIGTERM, needs 0"
  printf '%s: %s\n' "$grid" "$(cat "$dir/said")"
done
