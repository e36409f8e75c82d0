// The header: REPLs and who keeps them busy, clients, the number of differences between loaded code and files, and problems.
import { tool } from "./transport.js";
import { el, formatDuration, oneLine } from "./text.js";

const [holder, problem] = ["repls", "problem"].map((id) => document.getElementById(id));
const DRIFT_CHECK_DELAY_MS = 1500;

let state = null, drift = null, timer = 0, clockLead = 0, openEvaluation = () => 0, clocks = [];

export const onOpenEvaluation = (handler) => { openEvaluation = handler; };

export function show(newState, newClockLead) {
	state = newState;
	clockLead = newClockLead;
	draw();
}

function draw() {
	if (!state) return;
	clocks = [];
	const repls = state.repls.map((repl) => {
		const clock = el("span", { class: "clock" });
		clocks.push([clock, repl.since]);
		return el("button", { class: `chip ${repl.state}`, title: repl.title, onclick: () => openEvaluation(repl.id), disabled: !repl.id },
			el("span", { class: "dot" }), el("strong", {}, oneLine(repl.key)), repl.dialect !== repl.key && el("span", { class: "quiet" }, oneLine(repl.dialect)),
			oneLine(repl.words), clock, repl.queue > 0 && el("span", { class: "queue" }, `${repl.queue} waiting`));
	});
	if (!repls.length) repls.push(el("span", { class: "chip" }, el("span", { class: "dot" }), state.isSearching ? "searching for REPLs…" : "no REPL"));
	const clients = state.clients.length;
	const who = el("span", { class: "chip plain", title: state.clients.map((name) => oneLine(name, 60)).join(", ") },
		`${clients} ${clients === 1 ? "client" : "clients"}`);
	const files = el("button", { class: `chip plain${drift ? " drifts" : ""}`, title: "How loaded code differs from its files; click to check again", onclick: checkDrift },
		drift === 0 ? "no drift" : `drift ${drift ?? "?"}`);
	holder.replaceChildren(...repls, who, files);
	problem.hidden = !state.problems.length;
	problem.textContent = state.problems.map((text) => oneLine(text)).join(" · ");
	tick();
}

export function tick() {
	for (const [element, since] of clocks) element.textContent = since ? formatDuration(Math.max(0, Date.now() + clockLead - since)) : "";
}

/** Check soon how the loaded code differs from its files. */
export function scheduleDriftCheck() {
	clearTimeout(timer);
	timer = setTimeout(checkDrift, DRIFT_CHECK_DELAY_MS);
}

async function checkDrift() {
	if (state?.repls.some((repl) => repl.id)) return scheduleDriftCheck();
	try { drift = (await tool("what_changed", {})).count; } catch { drift = null; }
	draw();
}
