// Calls to the server and its stream of events: by `fetch` alone, to a server that has proved to be the page's own.
import { STOPPED, isOurs, post } from "./access.js";
import { joined } from "./text.js";

let token = "", ends = null; // `ends`: aborts all requests to the present server; null while there is none

const send = (name, given) => {
	if (!ends) throw new Error(STOPPED);
	return post(`/do/${name}`, given, { token, signal: ends.signal });
};

/** The answer to a call. A server that refuses, or is gone, gives none. */
export async function call(name, given = {}) {
	let answer;
	try {
		answer = await send(name, given);
	} catch (error) {
		throw ends ? new Error("The server does not answer.") : new Error(STOPPED);
	}
	if (!answer.ok) throw new Error(`The server returned an error (${answer.status}).`);
	return answer.json();
}

/** The answer of a tool; what it refuses is reported in its words. */
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
const PROOF_MS = 10000;
const RESTS_MS = [300, 600, 1200, 2500, 5000, 10000, 30000];

/**
 * Follows what happens, for ever. `hear(event, data)`; `hear("lost")` once the stream has ended: from then on nothing is
 * sent but challenges, until a server has answered one.
 */
export async function follow(given, hear) {
	token = given;
	let since = 0, before = 0, tries = 0;
	for (let isFirst = true; ; isFirst = false) {
		let timer, isAlive = false;
		// Where the browser has no WebCrypto, the server is believed that has just served the page, and no later one.
		try { isAlive = crypto.subtle ? await isOurs(token, AbortSignal.timeout(PROOF_MS)) : isFirst; } catch { /* it is not */ }
		if (isAlive) {
			ends = new AbortController();
			const alive = () => { clearTimeout(timer); timer = setTimeout(() => ends.abort(), LOST_MS); };
			try {
				alive();
				const answer = await send("events", { since, before });
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
						if (said[1] === "hello") tries = 0;
						if (said[1] === "rows") ({ since, before } = data);
						hear(said[1], data);
					}
				}
			} catch { /* the next challenge reports it */ }
			clearTimeout(timer);
			ends.abort();
			ends = null;
		}
		hear("lost");
		await new Promise((done) => setTimeout(done, RESTS_MS[Math.min(tries++, RESTS_MS.length - 1)]));
	}
}
