// Follows a stream with Chromium's own `EventSource`: prints each message's data as a line.
//
// A page can't give an EventSource an `Authorization`, so that a small proxy of the same origin adds it. The
// proxy passes everything else on as it comes: where the server can't be reached it drops the connection.
import { createServer, request as plain } from "node:http";
import { request as secure } from "node:https";
import { chromium } from "playwright-core";

const target = new URL(process.argv[2]);
const say = (line) => process.stdout.write(`${line}\n`);

const proxy = createServer((incoming, outgoing) => {
  if (incoming.url === "/") {
    outgoing.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>follower</title>");
    return;
  }
  const headers = { ...incoming.headers, host: target.host, authorization: `Bearer ${process.env.TEAMLAMP_TOKEN}` };
  const ask = target.protocol === "https:" ? secure : plain;
  const onward = ask(new URL(incoming.url, target), { method: incoming.method, headers }, (answer) => {
    outgoing.writeHead(answer.statusCode, answer.headers);
    answer.pipe(outgoing);
    answer.on("close", () => answer.complete || outgoing.destroy());
  });
  onward.on("error", () => incoming.socket.destroy());
  outgoing.on("close", () => onward.destroy());
  incoming.pipe(onward);
});

await new Promise((ready) => proxy.listen(0, "127.0.0.1", ready));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage();
await page.goto(`http://127.0.0.1:${proxy.address().port}/`);
await page.exposeFunction("say", say);
await page.evaluate((path) => {
  let last = "";
  const open = () => {
    const source = new EventSource(last === "" ? path : `${path}?after=${encodeURIComponent(last)}`);
    source.onopen = () => say('{"opened":true}');
    source.onmessage = (message) => {
      last = message.lastEventId || last;
      say(message.data);
    };
    source.onerror = () => {
      // See with_eventsource.mjs: only an answer other than 200 ends it for good.
      if (source.readyState !== EventSource.CLOSED) return;
      say('{"anew":true}');
      setTimeout(open, 1000);
    };
  };
  open();
}, target.pathname);
process.on("SIGTERM", () => void browser.close().then(() => process.exit(0)));
