// The page: its rows, the views beside them, the keys.
import { STOPPED, enter } from "./access.js";
import { Detail } from "./detail.js";
import { Feed, has, isBroken, isLive } from "./feed.js";
import * as header from "./header.js";
import { List } from "./list.js";
import { panels } from "./panels.js";
import { imageOf, numbersOf } from "./pictures.js";
import { fillClock, fillRow, heightOf as lineHeightOf, kindOf, makeRow } from "./row.js";
import { el, oneLine } from "./text.js";
import { call, follow } from "./transport.js";

const at = (id) => document.getElementById(id);
const scroll = at("scroll"), search = at("search"), strip = at("strip"), panel = at("panel"), live = at("live");
const narrow = matchMedia("(max-width: 640px)");
const MEDIA = 132, CLOCK_MS = 500, STRIP = 12, SEEK_MS = 400;

const feed = new Feed();
const open = new Map();
const filters = { kind: "all", who: "" };
let found = new Set(), seeking = 0, wanted = "", current = null, unseen = 0, view = "live", due, gaps = 0;

const heightOf = (row) => {
	const detail = open.get(row.key);
	return lineHeightOf(row, narrow.matches) + (detail ? detail.height : row.pictures ? MEDIA : 0);
};

const list = new List(scroll, at("rows"), {
	make() {
		const element = makeRow();
		element.line.addEventListener("click", () => { choose(element.row); toggle(element.row); });
		element.line.addEventListener("focus", () => { if (current !== element.row) choose(element.row, false); });
		return element;
	},
	fill(element, row) {
		fillRow(element, row, feed.whos.get(row.who), feed.ahead, open.get(row.key));
		element.line.tabIndex = row === current ? 0 : -1;
		element.classList.toggle("current", row === current);
	},
	heightOf,
});

/* What is shown */

const KINDS = {
	all: ["All", (row) => kindOf(row) !== "app"],
	red: ["Errors", isBroken],
	tests: ["Tests", (row) => kindOf(row) === "tests"],
	edits: ["Edits and loads", (row) => ["edit", "load"].includes(kindOf(row))],
	pictures: ["Pictures", (row) => row.pictures > 0],
	app: ["Application", (row) => kindOf(row) === "app"],
};

const isShown = (row) => KINDS[filters.kind][1](row) && (!filters.who || row.who === filters.who) && (!wanted || has(row, wanted) || found.has(row.id));

function find(text) {
	wanted = text;
	found = new Set();
	refilter();
	seek();
}

/** Asks which rows have it anywhere in their texts, which are cut here. */
function seek() {
	seeking ||= setTimeout(async () => {
		const part = wanted;
		let ids = [];
		try { if (part) ({ ids } = await call("found", { part })); } catch { /* what is here alone */ }
		seeking = 0;
		if (part !== wanted) return seek();
		found = new Set(ids);
		refilter();
	}, SEEK_MS);
}

function refilter() {
	for (const row of feed.rows) row.isShown = isShown(row);
	redraw();
	showOmitted();
}

let isLoading = true;
function showLoading(more) {
	isLoading = more;
	at("loading").hidden = !more;
	at("loading").textContent = feed.rows.length ? "Loading earlier rows…" : "Loading…";
}

function redraw() {
	const rows = feed.rows.filter((row) => row.isShown);
	list.set(rows);
	const empty = at("empty");
	empty.hidden = rows.length > 0 || isLoading;
	if (feed.rows.length) empty.textContent = "No row matches.";
	drawFilters();
}

let filtersAre = "";
function drawFilters() {
	const kinds = Object.keys(KINDS).filter((kind) => kind === "all" || kind === filters.kind || feed.rows.some((row) => KINDS[kind][1](row)));
	const whos = [...feed.whos.keys()];
	const now = JSON.stringify([kinds, whos, filters]);
	if (now === filtersAre) return;
	filtersAre = now;
	const chip = (words, isOn, then, hue) => el("button", { class: "filter", "aria-pressed": String(isOn), "data-hue": hue, onclick: () => { then(); refilter(); } }, oneLine(words));
	at("filters").replaceChildren(
		...kinds.map((kind) => chip(KINDS[kind][0], filters.kind === kind, () => { filters.kind = kind; })),
		...(whos.length > 1 ? whos.map((who) => chip(who, filters.who === who, () => { filters.who = filters.who === who ? "" : who; }, String(feed.whos.get(who)))) : []));
}

function drawStrip() {
	const shown = feed.rows.filter((row) => row.pictures).slice(-STRIP)
		.flatMap((row) => numbersOf(row).map((number) => [row, number])).slice(-STRIP);
	const key = shown.map(([row, number]) => `${row.key} ${number}`).join();
	if (strip.key === key) return;
	strip.key = key;
	strip.hidden = !shown.length;
	strip.replaceChildren(...shown.reverse().map(([row, number]) => {
		const thumb = el("button", { class: "thumb", onclick: () => leadTo(row.id) }, imageOf(row, number, () => thumb.remove()));
		return thumb;
	}));
}

/* Rows that are chosen and opened */

function choose(row, focus = true) {
	const before = current;
	current = row;
	for (const one of [before, row]) if (one) one.version += 1;
	if (!row) return list.later();
	list.show(row);
	if (focus) list.shown.get(row)?.line.focus({ preventScroll: true });
}

function toggle(row) {
	const detail = open.get(row.key);
	if (detail) {
		detail.close();
		open.delete(row.key);
		list.settle();
	} else {
		list.follows = false;
		// What is opened is seen: its height is known once it is filled, which may be more than once.
		open.set(row.key, new Detail(row, () => { if (row === current) list.show(row); else list.later(); }));
	}
	row.version += 1;
	list.later();
}

/** Goes to the row of an evaluation, and opens it: as soon as it comes. */
function leadTo(id) {
	const row = feed.byId.get(id);
	due = row ? "" : id;
	if (!row) return;
	choosePanel("live");
	if (!row.isShown) {
		Object.assign(filters, { kind: kindOf(row) === "app" ? "app" : "all", who: "" });
		search.value = "";
		find("");
	}
	list.measure();
	if (!open.has(row.key)) toggle(row);
	list.show(row, { middle: true });
	choose(row);
}

function move(by) {
	const rows = list.rows;
	if (!rows.length) return;
	const from = current && rows[current.place] === current ? current.place : by > 0 ? list.at(scroll.scrollTop) - 1 : rows.length;
	choose(rows[Math.max(0, Math.min(rows.length - 1, from + by))]);
}

/* Views */

const beside = panels({ leadTo, search });
const VIEWS = { live: "Live", ...Object.fromEntries(Object.entries(beside).map(([name, one]) => [name, one.title])) };

function choosePanel(name) {
	if (view === name) return;
	view = name;
	const other = beside[name];
	live.hidden = at("filters").hidden = Boolean(other);
	panel.hidden = !other;
	search.value = other ? "" : wanted;
	search.hidden = other && !other.search;
	if (other) {
		panel.setAttribute("aria-label", other.title);
		other.show(panel);
	} else list.later();
	drawTabs();
}

const drawTabs = () => at("tabs").replaceChildren(...Object.entries(VIEWS).map(([name, title]) =>
	el("button", { role: "tab", "aria-selected": String(name === view), "aria-controls": name === "live" ? "live" : "panel", onclick: () => choosePanel(name) }, title)));

search.addEventListener("input", () => {
	if (view === "live") find(search.value.trim().toLowerCase());
});
search.addEventListener("keydown", (event) => {
	if (event.key === "Enter" && view !== "live") beside[view].search(search.value.trim());
});

/* Keys */

addEventListener("keydown", (event) => {
	if (event.ctrlKey || event.metaKey || event.altKey || at("help").open || at("large").open) return;
	const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
	if (event.key === "Escape") {
		if (isTyping && event.target !== search) event.target.blur();
		else if (event.target === search || wanted) { search.value = ""; search.blur(); find(""); }
		else if (view !== "live") choosePanel("live");
		else if (current && open.has(current.key)) toggle(current);
		else choose(null);
		return;
	}
	if (isTyping) return;
	const keys = {
		j: () => move(1), k: () => move(-1), o: () => current && toggle(current),
		G: () => { choose(null); list.toEnd(); }, g: () => list.rows.length && choose(list.rows[0]),
		"/": () => search.focus(), "?": () => at("help").showModal(),
	};
	if (view === "live") Object.assign(keys, { ArrowDown: keys.j, ArrowUp: keys.k });
	Object.keys(VIEWS).forEach((name, place) => { keys[String(place + 1)] = () => choosePanel(name); });
	if (!Object.hasOwn(keys, event.key)) return;
	if (view !== "live" && "jkoGg".includes(event.key)) return;
	event.preventDefault();
	keys[event.key]();
});

/* What comes */

const newest = at("newest"), gone = at("gone"), link = at("link");
newest.addEventListener("click", () => list.toEnd());
const showNewest = () => {
	if (list.follows) unseen = 0;
	newest.hidden = list.follows || !list.rows.length;
	newest.textContent = unseen ? `${unseen} new ↓` : "newest ↓";
};
scroll.addEventListener("scroll", showNewest, { passive: true });

function lost() {
	showConnection(STOPPED);
}

function showConnection(words) {
	link.className = words ? "lost" : "";
	link.textContent = words || "live";
	if (words) at("loading").hidden = true;
	at("another").hidden = Boolean(words);
}

/** Opens the page in another tab, which gets a code of its own: the token does not leave this one. */
at("another").addEventListener("click", async () => {
	try {
		const { code } = await call("another");
		window.open(`/#${code}`, "_blank", "noopener");
	} catch (error) { at("said").textContent = error.message; }
});

const heard = {
	hello({ workspace, version, isLoading: more }) {
		showConnection("");
		const name = oneLine(workspace.split(/[\\/]/).at(-1));
		feed.workspace = `${workspace}/`;
		Object.assign(at("workspace"), { textContent: name, title: `${workspace}, codriver ${version}` });
		document.title = `${name} · codriver`;
		header.driftMay();
		if (more || isLoading) showLoading(more);
		redraw();
	},
	rows(data) {
		const before = feed.rows.length;
		const changed = feed.take(data);
		showLoading(data.before > 0);
		if (!list.follows && !data.older) unseen += Math.max(0, feed.rows.length - before);
		for (const row of changed) {
			row.isShown = isShown(row);
			open.get(row.key)?.changed();
			if (!isLive(row) && ["load", "tests", "edit"].includes(row.kind)) header.driftMay();
			if (isBroken(row) && before && !data.older) at("said").textContent = oneLine(`${row.who ?? ""}: ${row.error ?? row.text}`, 200);
		}
		redraw();
		drawStrip();
		showNewest();
		showOmitted();
		if (wanted) seek();
		if (due) leadTo(due);
	},
	header(data) { evicted = data.evicted; header.show(data, feed.ahead); showOmitted(); },
	gap() { gaps += 1; showOmitted(); },
	lost,
};

let evicted = 0;
function showOmitted() {
	const words = [], more = [...found].filter((id) => !feed.byId.has(id)).length;
	if (more) words.push(`${more} more matching entries are in the log, but too old for this page: use Query`);
	if (evicted) words.push(`${evicted} older entries were removed from the log; their code is in History`);
	if (gaps) words.push("some output was too fast to display: open a row to see everything that is stored");
	if (feed.dropped) words.push(`${feed.dropped} older rows are no longer on this page`);
	gone.hidden = !words.length;
	gone.textContent = words.join("; ");
}

setInterval(() => {
	if (link.className) return; // nothing is known of what runs
	for (const [row, element] of list.shown) if (isLive(row)) fillClock(element, row, feed.ahead);
	header.tick();
}, CLOCK_MS);
narrow.addEventListener("change", () => list.later());
header.onLead(leadTo);
drawTabs();
drawFilters();
enter().then((token) => follow(token, (event, data) => heard[event]?.(data))).catch((error) => showConnection(error.message));
