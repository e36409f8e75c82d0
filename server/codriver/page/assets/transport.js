// What is asked of the server and what it tells: by `fetch` alone, each request with the token as a header.
import { joined } from "./text.js";
import { token } from "./token.js";

const asked = (name, given, signal) =>
	fetch(`/do/${name}`, {
		method: "POST",
		headers: { "content-type": "application/json", "codriver-token": token() },
		body: JSON.stringify(given),
		cache: "no-store",
		credentials: "omit",
		redirect: "error",
		signal,
	});

/** The answer to a call. A server that refuses, or is gone, gives none. */
export async function call(name, given = {}) {
	let answer;
	try {
		answer = await asked(name, given);
	} catch {
		throw new Error("The server does not answer.");
	}
	if (!answer.ok) throw new Error(`The server has no answer (${answer.status}).`);
	return answer.json();
}

/** The answer of a tool; what it refuses is told in its words. */
export async function tool(name, given) {
	const { answer, images } = await call(name, given);
	return { ...answer, images };
}

/** The rows of a Datalog query; throws in the words of the server where it is none. */
export async function query(text, inputs = [], limit = 500) {
	const answer = await tool("repl_output_log", { query: text, inputs, limit, maxTextBytes: 262144 });
	if (!answer.ok) throw new Error(joined([answer.message, answer.hint], ": "));
	return answer;
}

const LOST_MS = 25000; // the server says something every 10 s
const RESTS_MS = [300, 600, 1200, 2500, 5000];

/** Follows what happens, for ever. `hear(event, data)`; `hear("lost", tries)` while there is no server. */
export async function follow(hear) {
	let since = 0, server = "", tries = 0;
	for (;;) {
		const ends = new AbortController();
		let timer;
		const alive = () => { clearTimeout(timer); timer = setTimeout(() => ends.abort(), LOST_MS); };
		try {
			alive();
			const answer = await asked("events", { since, server }, ends.signal);
			if (!answer.ok) throw new Error(String(answer.status));
			const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
			let text = "";
			for (;;) {
				const { value, done } = await reader.read();
				if (done) break;
				alive();
				text += value;
				const events = text.split("\n\n");
				text = events.pop();
				for (const one of events) {
					const said = /^event: (\w+)\ndata: (.*)$/s.exec(one);
					if (!said) continue;
					const data = JSON.parse(said[2]);
					if (said[1] === "hello") { data.isNew = data.server !== server; server = data.server; tries = 0; }
					if (said[1] === "rows") since = data.since;
					hear(said[1], data);
				}
			}
		} catch { /* the next try tells */ }
		clearTimeout(timer);
		ends.abort();
		hear("lost", tries);
		await new Promise((done) => setTimeout(done, RESTS_MS[Math.min(tries++, RESTS_MS.length - 1)]));
	}
}
