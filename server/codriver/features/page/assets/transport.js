// Calls to the server and its stream of events. Uses only `fetch`, and only servers that have proved that they know the token.
import { STOPPED, post, provesToken } from "./access.js";
import { join } from "./text.js";

let token = "", connection = null; // an AbortController for all requests to the current server, or null if there is none

const send = (name, fields) => {
	if (!connection) throw new Error(STOPPED);
	return post(`/do/${name}`, fields, { token, signal: connection.signal });
};

/** Return the answer to a call. Throws an error if the server refuses it or has stopped. */
export async function call(name, fields = {}) {
	let answer;
	try {
		answer = await send(name, fields);
	} catch (error) {
		throw connection ? new Error("The server does not answer.") : new Error(STOPPED);
	}
	if (!answer.ok) throw new Error(`The server returned an error (${answer.status}).`);
	return answer.json();
}

/** Return the answer of a tool. Refusals are returned as well. */
export async function tool(name, fields) {
	const { answer, images } = await call(name, fields);
	return { ...answer, images };
}

/** Return the answer to a Datalog query. Throws an error with the server's message if the query is invalid. */
export async function query(text, inputs = [], limit = 500) {
	const answer = await tool("repl_output_log", { query: text, inputs, limit, maxTextBytes: 262144 });
	if (!answer.ok) throw new Error(join([answer.message, answer.hint], ": "));
	return answer;
}

const SILENCE_TIMEOUT_MS = 25000; // the server sends something at least every 10 s
const PROOF_TIMEOUT_MS = 10000;
const RETRY_DELAYS_MS = [300, 600, 1200, 2500, 5000, 10000, 30000];

/**
 * Follow the server's events, and reconnect forever. Calls `onEvent(event, data)`, and `onEvent("lost")` when the stream has
 * ended. From then on, only challenges are sent, until a server has answered one.
 */
export async function follow(newToken, onEvent) {
	token = newToken;
	let since = 0, before = 0, tries = 0;
	for (let isFirst = true; ; isFirst = false) {
		let timer, isAlive = false;
		// Without WebCrypto, only the server that has just served the page is trusted, and no later one.
		try { isAlive = crypto.subtle ? await provesToken(token, AbortSignal.timeout(PROOF_TIMEOUT_MS)) : isFirst; } catch { /* not alive */ }
		if (isAlive) {
			connection = new AbortController();
			const restartTimer = () => { clearTimeout(timer); timer = setTimeout(() => connection.abort(), SILENCE_TIMEOUT_MS); };
			try {
				restartTimer();
				const answer = await send("events", { since, before });
				if (!answer.ok) throw new Error(String(answer.status));
				const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
				let text = "";
				for (;;) {
					const { value, done } = await reader.read();
					if (done) break;
					restartTimer();
					text += value;
					const events = text.split("\n\n");
					text = events.pop();
					for (const event of events) {
						const match = /^event: (\w+)\ndata: (.*)$/s.exec(event);
						if (!match) continue;
						const [, kind, json] = match, data = JSON.parse(json);
						if (kind === "hello") tries = 0;
						if (kind === "rows") ({ since, before } = data);
						onEvent(kind, data);
					}
				}
			} catch { /* the next challenge reports it */ }
			clearTimeout(timer);
			connection.abort();
			connection = null;
		}
		onEvent("lost");
		await new Promise((done) => setTimeout(done, RETRY_DELAYS_MS[Math.min(tries++, RETRY_DELAYS_MS.length - 1)]));
	}
}
