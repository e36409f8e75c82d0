// One row: its time, caller, session, code, outcome and duration, with its pictures below.
import { hasFailed, isLive } from "./feed.js";
import { picturesOf } from "./pictures.js";
import { clock, el, firstLines, formatDuration, oneLine } from "./text.js";

const SIGNS = { code: "›", load: "↓", tests: "✓", edit: "±", message: "·", app: "~" };
const NOTHING = new Set(["", "None", "nil"]);
const OBJECT = /^[[(]*<[^\n]*>[\])]*$|^Text\(.*\)$|^\[?<[\s\S]*>\]?$/; // values of plotting functions and modules

export const kindOf = (row) => row.kind ?? "code";

/** Return a short text that describes what a row is about. */
export const titleOf = (row) => {
	const kind = kindOf(row);
	if (kind === "load") return oneLine(row.file || row.goal || row.text);
	return kind === "code" ? firstLines(row.text) : oneLine(row.text);
};

/** Return the value, or nothing if it is uninformative, such as None or what a plot or a load returns. */
const valueOf = (row) => {
	const result = (row.result ?? "").trim();
	if (kindOf(row) === "load" || (row.pictures && OBJECT.test(result))) return "";
	return NOTHING.has(result) ? "" : firstLines(result);
};

const linesOf = (text) => text.split("\n").length;
const LINE_HEIGHT = 18;

/** Return the height of a row without its details and pictures. Texts can have several lines. */
export const heightOf = (row, isNarrow) => {
	const titleLines = linesOf(titleOf(row)), outcomeLines = linesOf(outcomeOf(row));
	return isNarrow ? 58 + LINE_HEIGHT * (titleLines + outcomeLines - 2) : 34 + LINE_HEIGHT * (Math.max(titleLines, outcomeLines) - 1);
};

/** Return a short text about the outcome. */
export const outcomeOf = (row) => {
	if (kindOf(row) === "tests") {
		if (isLive(row)) return row.done ? `${row.done} of ${row.total ?? "?"} tests${row.failures ? `, ${row.failures} failed` : ""}` : lastLine(row) || "tests are running";
		if (row.tests !== undefined) {
			const count = `${row.tests} ${row.tests === 1 ? "test" : "tests"}`;
			return row.failures ? `${count}, ${row.failures} failed: ${oneLine(row.names, 120)}` : `${count}, all passed`;
		}
	}
	if (row.error) return oneLine(row.error);
	if (row.status === "queued") return "waiting for its turn";
	if (row.status === "needs-input") return `${lastLine(row)} is waiting for input`.trim();
	if (isLive(row)) return lastLine(row);
	return valueOf(row) || lastLine(row) || (kindOf(row) === "load" ? "loaded" : "");
};

const lastLine = (row) => oneLine(row.output.trimEnd().split("\n").at(-1));

/** Return the text that screen readers read for a row. */
const ariaLabel = (row) =>
	[row.status !== "done" && row.status !== "past" && row.status, row.kind, row.who && `by ${row.who}`, row.where && `in ${row.where}`, titleOf(row), outcomeOf(row)]
		.filter(Boolean).join(", ");

export const makeRow = () => {
	const parts = {};
	const span = (name) => (parts[name] = el("span", { class: name }));
	const line = el("button", { class: "line", tabIndex: -1 },
		span("time"), span("who"), span("where"), span("sign"), span("what"), span("outcome"), span("duration"));
	const element = el("div", { class: "row", role: "listitem" }, line);
	element.parts = parts;
	element.line = line;
	element.media = el("div", { class: "media" });
	return element;
};

export const fillRow = (element, row, hue, clockLead, detail) => {
	const { time, who, where, sign, what, outcome } = element.parts;
	const kind = kindOf(row), failed = hasFailed(row), live = isLive(row);
	element.className = `row ${kind}${failed ? " failed" : live ? " alive" : ""}${detail ? " open" : ""}`;
	time.textContent = row.at ? clock(row.at) : "";
	who.textContent = oneLine(row.who);
	who.dataset.hue = hue ?? "";
	where.textContent = oneLine(row.where);
	sign.textContent = failed && kind !== "edit" ? "✗" : row.status === "needs-input" ? "?" : live ? "…" : SIGNS[kind];
	what.textContent = titleOf(row);
	outcome.replaceChildren(...(kind === "tests" && live && row.done ? [progressBar(row)] : []), outcomeOf(row));
	fillClock(element, row, clockLead);
	element.line.setAttribute("aria-expanded", String(Boolean(detail)));
	element.line.setAttribute("aria-label", ariaLabel(row));
	for (const other of element.querySelectorAll(":scope > .detail")) if (other !== detail?.element) other.remove();
	if (row.pictures && !detail) {
		if (element.media.key !== `${row.key} ${row.pictures}`) {
			element.media.key = `${row.key} ${row.pictures}`;
			element.media.replaceChildren(...picturesOf(row, 6));
		}
		if (element.media.parentNode !== element) element.append(element.media);
	} else {
		element.media.remove();
	}
	if (detail && detail.element.parentNode !== element) element.append(detail.element);
};

/** Return a progress bar for a test run. It is hidden if the number of tests is unknown. */
const progressBar = (row) => {
	const share = row.total ? Math.min(1, row.done / row.total) : 0;
	const bar = el("span", { class: `progress${row.failures ? " failed" : ""}`, role: "progressbar", "aria-valuemin": "0", "aria-valuemax": String(row.total ?? ""), "aria-valuenow": String(row.done), hidden: !row.total }, el("span"));
	bar.firstChild.style.width = `${share * 100}%`;
	return bar;
};

/** Display how long an evaluation took or, if it is running, how long it has taken so far. */
export const fillClock = (element, row, clockLead) => {
	const since = row.status === "queued" ? undefined : row.startedAt ?? undefined;
	element.parts.duration.textContent = isLive(row) ? (since ? formatDuration(Math.max(0, Date.now() + clockLead - since)) : "") : formatDuration(row.ms);
};
