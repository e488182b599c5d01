// Follows a stream with npm's `eventsource`: prints each message's data as a line.
import { EventSource } from "eventsource";

const [url] = process.argv.slice(2);
const authorized = { Authorization: `Bearer ${process.env.TEAMLAMP_TOKEN}` };
const say = (line) => process.stdout.write(`${line}\n`);
let last = "";

function open() {
  const from = last === "" ? url : `${url}?after=${encodeURIComponent(last)}`;
  const source = new EventSource(from, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...authorized } }),
  });
  source.onopen = () => say('{"opened":true}');
  source.onmessage = (message) => {
    last = message.lastEventId || last;
    say(message.data);
  };
  source.onerror = () => {
    // By the standard an answer other than 200, such as a proxy's 502 while the server starts again, ends an
    // EventSource for good. A new one goes on with `after`.
    if (source.readyState !== EventSource.CLOSED) return;
    say('{"anew":true}');
    setTimeout(open, 1000);
  };
}
open();
