// One row: time, who, where, what, what came of it and how long it took; its pictures below it, in place.
import { isBroken, isLive } from "./feed.js";
import { picturesOf } from "./pictures.js";
import { clock, el, firstLines, oneLine, took } from "./text.js";

const SIGNS = { code: "›", load: "↓", tests: "✓", edit: "±", said: "·", app: "~" };
const NOTHING = new Set(["", "None", "nil"]);
const OBJECT = /^[[(]*<[^\n]*>[\])]*$|^Text\(.*\)$|^\[?<[\s\S]*>\]?$/; // what plotting functions return, and modules

export const kindOf = (row) => row.kind ?? "code";

/** What a row is about, in a line. */
export const wordsOf = (row) => {
	const kind = kindOf(row);
	if (kind === "load") return oneLine(row.file || row.goal || row.text);
	return kind === "code" ? firstLines(row.text) : oneLine(row.text);
};

/** The value, as far as it says anything: neither that there is none, nor what a plot or a load returns besides. */
const valueOf = (row) => {
	const result = (row.result ?? "").trim();
	if (kindOf(row) === "load" || (row.pictures && OBJECT.test(result))) return "";
	return NOTHING.has(result) ? "" : firstLines(result);
};

const linesOf = (text) => text.split("\n").length;
const LINE = 18;

/** The height of a row's line, with all lines of its texts. */
export const heightOf = (row, isNarrow) => {
	const what = linesOf(wordsOf(row)), came = linesOf(outcomeOf(row));
	return isNarrow ? 58 + LINE * (what + came - 2) : 34 + LINE * (Math.max(what, came) - 1);
};

/** What came of it, in a line. */
export const outcomeOf = (row) => {
	if (kindOf(row) === "tests") {
		if (isLive(row)) return row.done ? `${row.done} of ${row.of ?? "?"} tests${row.red ? `, ${row.red} failed` : ""}` : lastLine(row) || "tests are running";
		if (row.tests !== undefined) {
			const count = `${row.tests} ${row.tests === 1 ? "test" : "tests"}`;
			return row.red ? `${count}, ${row.red} failed: ${oneLine(row.names, 120)}` : `${count}, all passed`;
		}
	}
	if (row.error) return oneLine(row.error);
	if (row.status === "queued") return "waiting for its turn";
	if (row.status === "needs-input") return `${lastLine(row)} is waiting for input`.trim();
	if (isLive(row)) return lastLine(row);
	return valueOf(row) || lastLine(row) || (kindOf(row) === "load" ? "loaded" : "");
};

const lastLine = (row) => oneLine(row.output.trimEnd().split("\n").at(-1));

/** What a screen reader says of a row. */
const said = (row) =>
	[row.status !== "done" && row.status !== "past" && row.status, row.kind, row.who && `by ${row.who}`, row.where && `in ${row.where}`, wordsOf(row), outcomeOf(row)]
		.filter(Boolean).join(", ");

export const makeRow = () => {
	const parts = {};
	const span = (name) => (parts[name] = el("span", { class: name }));
	const line = el("button", { class: "line", tabIndex: -1 },
		span("time"), span("who"), span("where"), span("sign"), span("what"), span("came"), span("took"));
	const element = el("div", { class: "row", role: "listitem" }, line);
	element.parts = parts;
	element.line = line;
	element.media = el("div", { class: "media" });
	return element;
};

export const fillRow = (element, row, hue, ahead, detail) => {
	const { time, who, where, sign, what, came } = element.parts;
	const kind = kindOf(row), broken = isBroken(row), live = isLive(row);
	element.className = `row ${kind}${broken ? " broken" : live ? " alive" : ""}${detail ? " open" : ""}`;
	time.textContent = row.at ? clock(row.at) : "";
	who.textContent = oneLine(row.who);
	who.dataset.hue = hue ?? "";
	where.textContent = oneLine(row.where);
	sign.textContent = broken && kind !== "edit" ? "✗" : row.status === "needs-input" ? "?" : live ? "…" : SIGNS[kind];
	what.textContent = wordsOf(row);
	came.replaceChildren(...(kind === "tests" && live && row.done ? [progressOf(row)] : []), outcomeOf(row));
	fillClock(element, row, ahead);
	element.line.setAttribute("aria-expanded", String(Boolean(detail)));
	element.line.setAttribute("aria-label", said(row));
	for (const one of element.querySelectorAll(":scope > .detail")) if (one !== detail?.element) one.remove();
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

/** How far a run of tests is, as far as its REPL says how many there are. */
const progressOf = (row) => {
	const share = row.of ? Math.min(1, row.done / row.of) : 0;
	const bar = el("span", { class: `bar-of${row.red ? " red" : ""}`, role: "progressbar", "aria-valuemin": "0", "aria-valuemax": String(row.of ?? ""), "aria-valuenow": String(row.done), hidden: !row.of }, el("span"));
	bar.firstChild.style.width = `${share * 100}%`;
	return bar;
};

/** How long it took, or takes: drawn anew every moment for what runs. */
export const fillClock = (element, row, ahead) => {
	const since = row.status === "queued" ? undefined : row.began ?? undefined;
	element.parts.took.textContent = isLive(row) ? (since ? took(Math.max(0, Date.now() + ahead - since)) : "") : took(row.ms);
};
