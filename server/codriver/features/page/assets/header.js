// How the server stands: REPLs, busy by whom; clients; differences from the files; troubles.
import { tool } from "./transport.js";
import { el, oneLine, took } from "./text.js";

const [holder, problem] = ["repls", "problem"].map((id) => document.getElementById(id));
const DRIFT_MS = 1500;

let stands = null, drift = null, timer = 0, ahead = 0, lead = () => 0, chips = [];

export const onLead = (to) => { lead = to; };

export function show(header, clockAhead) {
	stands = header;
	ahead = clockAhead;
	draw();
}

function draw() {
	if (!stands) return;
	chips = [];
	const repls = stands.repls.map((repl) => {
		const clocked = el("span", { class: "clock" });
		chips.push([clocked, repl.since]);
		return el("button", { class: `chip ${repl.state}`, title: repl.title, onclick: () => lead(repl.id), disabled: !repl.id },
			el("span", { class: "dot" }), el("strong", {}, oneLine(repl.key)), repl.dialect !== repl.key && el("span", { class: "quiet" }, oneLine(repl.dialect)),
			oneLine(repl.words), clocked, repl.queue > 0 && el("span", { class: "queue" }, `${repl.queue} waiting`));
	});
	if (!repls.length) repls.push(el("span", { class: "chip" }, el("span", { class: "dot" }), stands.isSearching ? "searching for REPLs…" : "no REPL"));
	const clients = stands.clients.length;
	const who = el("span", { class: "chip plain", title: stands.clients.map((one) => oneLine(one, 60)).join(", ") },
		`${clients} ${clients === 1 ? "client" : "clients"}`);
	const files = el("button", { class: `chip plain${drift ? " drifts" : ""}`, title: "How loaded code differs from its files; click to check again", onclick: look },
		drift === 0 ? "no drift" : `drift ${drift ?? "?"}`);
	holder.replaceChildren(...repls, who, files);
	problem.hidden = !stands.problems.length;
	problem.textContent = stands.problems.map((one) => oneLine(one)).join(" · ");
	tick();
}

export function tick() {
	for (const [place, since] of chips) place.textContent = since ? took(Math.max(0, Date.now() + ahead - since)) : "";
}

/** What is loaded may be something else than the files now. */
export function driftMay() {
	clearTimeout(timer);
	timer = setTimeout(look, DRIFT_MS);
}

async function look() {
	if (stands?.repls.some((repl) => repl.id)) return driftMay();
	try { drift = (await tool("what_changed", {})).count; } catch { drift = null; }
	draw();
}
