// How the server stands: REPLs, busy by whom and with what, who waits; clients; differences from the files; troubles.
import { tool } from "./transport.js";
import { el, oneLine, took } from "./text.js";

const holder = document.getElementById("repls");
const problem = document.getElementById("problem");
const DRIFT_MS = 1500;

let stands = null, drift = null, timer = 0, ahead = 0, lead = () => 0, chips = [];

export const onLead = (to) => { lead = to; };

export function show(header, clockAhead) {
  stands = header;
  ahead = clockAhead;
  draw();
}

const PHASES = { starting: "starts", connecting: "connects", waiting: "waits to be reached again", stopped: "stopped" };

function draw() {
  if (!stands) return;
  chips = [];
  const repls = stands.repls.map((repl) => {
    const clocked = el("span", { class: "clock" });
    const [first] = repl.busy;
    let words = PHASES[repl.phase] ?? "idle", state = repl.phase === "connected" ? "idle" : repl.phase === "stopped" ? "stopped" : "coming";
    if (first) {
      state = first.status === "needs-input" ? "asks" : "busy";
      words = `${first.who}${first.status === "needs-input" ? " is asked for input" : ""}${repl.busy.length > 1 ? ` and ${repl.busy.length - 1} more` : ""}`;
      chips.push([clocked, first.began]);
    } else if (state === "coming" && repl.since) chips.push([clocked, repl.since]);
    const inside = [el("span", { class: "dot" }), el("strong", {}, repl.key), el("span", { class: "quiet" }, repl.dialect === repl.key ? "" : repl.dialect),
      el("span", {}, words), clocked, repl.queue ? el("span", { class: "queue" }, `${repl.queue} waiting`) : null];
    return el("button", { type: "button", class: `chip ${state}`, title: repl.note || `${repl.dialect}, ${repl.phase}`,
      onclick: () => first ? lead(first.id) : 0, disabled: !first }, inside);
  });
  if (!repls.length) repls.push(el("span", { class: "chip" }, el("span", { class: "dot" }), stands.isSearching ? "looking for REPLs…" : "no REPL"));
  const clients = stands.clients.length;
  const who = el("span", { class: "chip plain", title: stands.clients.map((one) => oneLine(one, 60)).join(", ") },
    `${clients} ${clients === 1 ? "client" : "clients"}`);
  const files = el("button", { type: "button", class: `chip plain${drift?.count ? " drifts" : ""}`, title: "Differences of what is loaded from the files: look again", onclick: look },
    drift === null ? "drift ?" : drift.count ? `drift ${drift.count}` : "no drift");
  holder.replaceChildren(...repls, who, files);
  problem.hidden = !stands.problems.length;
  problem.textContent = stands.problems.map((one) => oneLine(one)).join(" · ");
  tick();
}

export function tick() {
  for (const [place, since] of chips) place.textContent = since ? took(Math.max(0, Date.now() + ahead - since)) : "";
}

/** Something was loaded, edited or tested: what is loaded may be something else than the files now. */
export function driftMay() {
  clearTimeout(timer);
  timer = setTimeout(look, DRIFT_MS);
}

async function look() {
  if (stands?.repls.some((repl) => repl.busy.length)) return driftMay();
  try {
    const answer = await tool("what_changed", {});
    drift = answer.ok ? { count: answer.count ?? 0, rows: answer.changes ?? [] } : null;
  } catch { drift = null; }
  draw();
}
