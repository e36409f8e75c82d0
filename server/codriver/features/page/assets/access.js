// Exchanges the one-time code in the address for a token. Runs before everything else. The token is stored for this tab only.
const COMMAND = "`codriver watch --web`";
export const STOPPED = `The server has stopped. Run ${COMMAND}.`;
const REFUSALS = {
	used: `This address works only once, and has already been used. Run ${COMMAND} to get another one.`,
	expired: `This address is more than ten minutes old. Run ${COMMAND} to get another one.`,
	replaced: `Eight newer addresses have replaced this one. Run ${COMMAND} to get another one.`,
	unknown: `This address does not belong to this server. Run ${COMMAND} to get another one.`,
};
const NO_TOKEN = `This page has no access yet. Open the address that ${COMMAND} prints.`;
const PROOF_PREFIX = "codriver page ";

const removeCode = () => history.replaceState(null, "", location.pathname);
const code = location.hash.slice(1);
if (code) removeCode();
addEventListener("hashchange", removeCode);

export const post = (path, body, { token, signal } = {}) =>
	fetch(path, {
		method: "POST",
		headers: { "content-type": "application/json", ...(token ? { "codriver-token": token } : {}) },
		body: JSON.stringify(body),
		cache: "no-store",
		credentials: "omit",
		redirect: "error",
		signal,
	});

/** Return the token of this tab. Throws an error with the reason if there is none. */
export async function obtainToken() {
	let reason = NO_TOKEN;
	if (code) {
		let answer = {};
		try { answer = await (await post("/enter", { code })).json(); } catch { reason = STOPPED; }
		if (answer.token) sessionStorage.setItem("token", answer.token);
		else if (answer.refused) reason = REFUSALS[answer.refused] ?? REFUSALS.unknown;
	}
	const token = sessionStorage.getItem("token");
	if (!token) throw new Error(reason);
	return token;
}

const bytesOf = (text) => new TextEncoder().encode(text);

/** Return whether the server proves that it knows the token. Only a fresh random number is sent to it. */
export async function provesToken(token, signal) {
	// Without WebCrypto, nothing can be proved.
	if (!crypto.subtle) return false;
	const nonce = [...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
	const key = await crypto.subtle.importKey("raw", bytesOf(token), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
	const { proof } = await (await post("/prove", { nonce }, { signal })).json();
	const received = new Uint8Array((/^[0-9a-f]{64}$/.exec(proof)?.[0].match(/../g) ?? []).map((digits) => parseInt(digits, 16)));
	return crypto.subtle.verify("HMAC", key, received, bytesOf(PROOF_PREFIX + nonce));
}
