// The token: taken for the code in the address, before anything else runs, and kept for this tab alone.
const COMMAND = "`codriver watch --web`";
export const STOPPED = `The server has stopped. Run ${COMMAND}.`;
const REFUSED = {
	used: `This address works only once, and has already been used. Run ${COMMAND} for another.`,
	expired: `This address is more than ten minutes old. Run ${COMMAND} for another.`,
	replaced: `Eight newer addresses have replaced this one. Run ${COMMAND} for another.`,
	unknown: `This address does not belong to this server. Run ${COMMAND} for another.`,
};
const NO_TOKEN = `This page has no access yet. Open the address that ${COMMAND} prints.`;
const PROOF = "codriver page ";

const withoutCode = () => history.replaceState(null, "", location.pathname);
const code = location.hash.slice(1);
if (code) withoutCode();
addEventListener("hashchange", withoutCode);

export const post = (path, given, { token, signal } = {}) =>
	fetch(path, {
		method: "POST",
		headers: { "content-type": "application/json", ...(token ? { "codriver-token": token } : {}) },
		body: JSON.stringify(given),
		cache: "no-store",
		credentials: "omit",
		redirect: "error",
		signal,
	});

/** The token of this tab. Throws with the reason why there is none. */
export async function enter() {
	let refused = NO_TOKEN;
	if (code) {
		let answer = {};
		try { answer = await (await post("/enter", { code })).json(); } catch { refused = STOPPED; }
		if (answer.token) sessionStorage.setItem("token", answer.token);
		else if (answer.refused) refused = REFUSED[answer.refused] ?? REFUSED.unknown;
	}
	const token = sessionStorage.getItem("token");
	if (!token) throw new Error(refused);
	return token;
}

const bytesOf = (text) => new TextEncoder().encode(text);

/** Whether the server proves that it knows the token. Nothing but a fresh random number is sent to it. */
export async function isOurs(token, signal) {
	// Without WebCrypto nothing can be proved.
	if (!crypto.subtle) return false;
	const nonce = [...crypto.getRandomValues(new Uint8Array(32))].map((one) => one.toString(16).padStart(2, "0")).join("");
	const key = await crypto.subtle.importKey("raw", bytesOf(token), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
	const { proof } = await (await post("/prove", { nonce }, { signal })).json();
	const given = new Uint8Array((/^[0-9a-f]{64}$/.exec(proof)?.[0].match(/../g) ?? []).map((one) => parseInt(one, 16)));
	return crypto.subtle.verify("HMAC", key, given, bytesOf(PROOF + nonce));
}
