// The page: its rows, its other views, and its keyboard shortcuts.
import { STOPPED, obtainToken } from "./access.js";
import { Detail } from "./detail.js";
import { Feed, hasFailed, isLive, matches } from "./feed.js";
import * as header from "./header.js";
import { List } from "./list.js";
import { createViews } from "./panels.js";
import { imageOf, numbersOf } from "./pictures.js";
import { fillClock, fillRow, heightOf as lineHeightOf, kindOf, makeRow } from "./row.js";
import { el, oneLine } from "./text.js";
import { call, follow } from "./transport.js";

const byId = (id) => document.getElementById(id);
const scroll = byId("scroll"), search = byId("search"), strip = byId("strip"), panel = byId("panel"), live = byId("live");
const narrow = matchMedia("(max-width: 640px)");
const MEDIA_HEIGHT = 132, CLOCK_INTERVAL_MS = 500, MAX_STRIP_PICTURES = 12, SEARCH_DELAY_MS = 400;

const feed = new Feed();
const open = new Map();
const filters = { kind: "all", who: "" };
let foundIds = new Set(), searchTimer = 0, searchText = "", current = null, unseen = 0, view = "live", pendingEvaluation, gaps = 0;

const heightOf = (row) => {
	const detail = open.get(row.key);
	return lineHeightOf(row, narrow.matches) + (detail ? detail.height : row.pictures ? MEDIA_HEIGHT : 0);
};

const list = new List(scroll, byId("rows"), {
	make() {
		const element = makeRow();
		element.line.addEventListener("click", () => { select(element.row); toggle(element.row); });
		element.line.addEventListener("focus", () => { if (current !== element.row) select(element.row, false); });
		return element;
	},
	fill(element, row) {
		fillRow(element, row, feed.whos.get(row.who), feed.clockLead, open.get(row.key));
		element.line.tabIndex = row === current ? 0 : -1;
		element.classList.toggle("current", row === current);
	},
	heightOf,
});

/* Filters and search */

const KINDS = {
	all: ["All", (row) => kindOf(row) !== "app"],
	failed: ["Errors", hasFailed],
	tests: ["Tests", (row) => kindOf(row) === "tests"],
	edits: ["Edits and loads", (row) => ["edit", "load"].includes(kindOf(row))],
	pictures: ["Pictures", (row) => row.pictures > 0],
	app: ["Application", (row) => kindOf(row) === "app"],
};

const isVisible = (row) => KINDS[filters.kind][1](row) && (!filters.who || row.who === filters.who) && (!searchText || matches(row, searchText) || foundIds.has(row.id));

function setSearchText(text) {
	searchText = text;
	foundIds = new Set();
	refilter();
	searchServer();
}

/** Request the ids of rows whose complete texts match. The texts on the page are truncated. */
function searchServer() {
	searchTimer ||= setTimeout(async () => {
		const part = searchText;
		let ids = [];
		try { if (part) ({ ids } = await call("search", { part })); } catch { /* only search the page */ }
		searchTimer = 0;
		if (part !== searchText) return searchServer();
		foundIds = new Set(ids);
		refilter();
	}, SEARCH_DELAY_MS);
}

function refilter() {
	for (const row of feed.rows) row.isVisible = isVisible(row);
	redraw();
	showOmitted();
}

let isLoading = true;
function showLoading(more) {
	isLoading = more;
	byId("loading").hidden = !more;
	byId("loading").textContent = feed.rows.length ? "Loading earlier rows…" : "Loading…";
}

function redraw() {
	const rows = feed.rows.filter((row) => row.isVisible);
	list.set(rows);
	const empty = byId("empty");
	empty.hidden = rows.length > 0 || isLoading;
	if (feed.rows.length) empty.textContent = "No row matches.";
	drawFilters();
}

let drawnFilters = "";
function drawFilters() {
	const kinds = Object.keys(KINDS).filter((kind) => kind === "all" || kind === filters.kind || feed.rows.some((row) => KINDS[kind][1](row)));
	const whos = [...feed.whos.keys()];
	const now = JSON.stringify([kinds, whos, filters]);
	if (now === drawnFilters) return;
	drawnFilters = now;
	const chip = (label, isOn, onSelect, hue) => el("button", { class: "filter", "aria-pressed": String(isOn), "data-hue": hue, onclick: () => { onSelect(); refilter(); } }, oneLine(label));
	byId("filters").replaceChildren(
		...kinds.map((kind) => chip(KINDS[kind][0], filters.kind === kind, () => { filters.kind = kind; })),
		...(whos.length > 1 ? whos.map((who) => chip(who, filters.who === who, () => { filters.who = filters.who === who ? "" : who; }, String(feed.whos.get(who)))) : []));
}

function drawStrip() {
	const pictures = feed.rows.filter((row) => row.pictures).slice(-MAX_STRIP_PICTURES)
		.flatMap((row) => numbersOf(row).map((number) => [row, number])).slice(-MAX_STRIP_PICTURES);
	const key = pictures.map(([row, number]) => `${row.key} ${number}`).join();
	if (strip.key === key) return;
	strip.key = key;
	strip.hidden = !pictures.length;
	strip.replaceChildren(...pictures.reverse().map(([row, number]) => {
		const thumb = el("button", { class: "thumb", onclick: () => openEvaluation(row.id) }, imageOf(row, number, () => thumb.remove()));
		return thumb;
	}));
}

/* Selecting and opening rows */

function select(row, focus = true) {
	const previous = current;
	current = row;
	for (const changed of [previous, row]) if (changed) changed.version += 1;
	if (!row) return list.scheduleDraw();
	list.reveal(row);
	if (focus) list.elements.get(row)?.line.focus({ preventScroll: true });
}

function toggle(row) {
	const detail = open.get(row.key);
	if (detail) {
		detail.close();
		open.delete(row.key);
		list.followIfAtEnd();
	} else {
		list.follows = false;
		// Keep the opened row visible. Its height can change several times while its details are loaded.
		open.set(row.key, new Detail(row, () => { if (row === current) list.reveal(row); else list.scheduleDraw(); }));
	}
	row.version += 1;
	list.scheduleDraw();
}

/** Scroll to the row of an evaluation and open it, now or when it is received. */
function openEvaluation(id) {
	const row = feed.byId.get(id);
	pendingEvaluation = row ? "" : id;
	if (!row) return;
	selectView("live");
	if (!row.isVisible) {
		Object.assign(filters, { kind: kindOf(row) === "app" ? "app" : "all", who: "" });
		search.value = "";
		setSearchText("");
	}
	list.measure();
	if (!open.has(row.key)) toggle(row);
	list.reveal(row, { middle: true });
	select(row);
}

function move(by) {
	const rows = list.rows;
	if (!rows.length) return;
	const from = current && rows[current.index] === current ? current.index : by > 0 ? list.indexAt(scroll.scrollTop) - 1 : rows.length;
	select(rows[Math.max(0, Math.min(rows.length - 1, from + by))]);
}

/* Views */

const otherViews = createViews({ openEvaluation, search });
const VIEW_TITLES = { live: "Live", ...Object.fromEntries(Object.entries(otherViews).map(([name, view]) => [name, view.title])) };

function selectView(name) {
	if (view === name) return;
	view = name;
	const other = otherViews[name];
	live.hidden = byId("filters").hidden = Boolean(other);
	panel.hidden = !other;
	search.value = other ? "" : searchText;
	search.hidden = other && !other.search;
	if (other) {
		panel.setAttribute("aria-label", other.title);
		other.show(panel);
	} else list.scheduleDraw();
	drawTabs();
}

const drawTabs = () => byId("tabs").replaceChildren(...Object.entries(VIEW_TITLES).map(([name, title]) =>
	el("button", { role: "tab", "aria-selected": String(name === view), "aria-controls": name === "live" ? "live" : "panel", onclick: () => selectView(name) }, title)));

search.addEventListener("input", () => {
	if (view === "live") setSearchText(search.value.trim().toLowerCase());
});
search.addEventListener("keydown", (event) => {
	if (event.key === "Enter" && view !== "live") otherViews[view].search(search.value.trim());
});

/* Keys */

addEventListener("keydown", (event) => {
	if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || byId("large").open) return;
	const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
	if (event.key === "Escape") {
		if (isTyping && event.target !== search) event.target.blur();
		else if (event.target === search || searchText) { search.value = ""; search.blur(); setSearchText(""); }
		else if (view !== "live") selectView("live");
		else if (current && open.has(current.key)) toggle(current);
		else select(null);
		return;
	}
	if (isTyping) return;
	const keys = {
		j: () => move(1), k: () => move(-1), o: () => current && toggle(current),
		G: () => { select(null); list.scrollToEnd(); }, g: () => list.rows.length && select(list.rows[0]),
		"/": () => search.focus(), "?": () => byId("help").showModal(),
	};
	if (view === "live") Object.assign(keys, { ArrowDown: keys.j, ArrowUp: keys.k });
	Object.keys(VIEW_TITLES).forEach((name, index) => { keys[String(index + 1)] = () => selectView(name); });
	if (!Object.hasOwn(keys, event.key)) return;
	if (view !== "live" && "jkoGg".includes(event.key)) return;
	event.preventDefault();
	keys[event.key]();
});

/* Events from the server */

const newest = byId("newest"), omitted = byId("omitted"), connection = byId("connection");
newest.addEventListener("click", () => list.scrollToEnd());
const showNewest = () => {
	if (list.follows) unseen = 0;
	newest.hidden = list.follows || !list.rows.length;
	newest.textContent = unseen ? `${unseen} new ↓` : "newest ↓";
};
scroll.addEventListener("scroll", showNewest, { passive: true });

function lost() {
	showConnection(STOPPED);
}

function showConnection(error) {
	connection.className = error ? "lost" : "";
	connection.textContent = error || "live";
	if (error) byId("loading").hidden = true;
	byId("another").hidden = Boolean(error);
}

// Opens the page in another tab with a new code. The token stays in this tab.
byId("another").addEventListener("click", async () => {
	try {
		const { code } = await call("another");
		window.open(`/#${code}`, "_blank", "noopener");
	} catch (error) { announcement.textContent = error.message; }
});

const announcement = byId("announcement");

const handlers = {
	hello({ workspace, version, isLoading: more }) {
		showConnection("");
		const name = oneLine(workspace.split(/[\\/]/).at(-1));
		feed.workspace = `${workspace}/`;
		Object.assign(byId("workspace"), { textContent: name, title: `${workspace}, codriver ${version}` });
		document.title = `${name} · codriver`;
		header.scheduleDriftCheck();
		if (more || isLoading) showLoading(more);
		redraw();
	},
	rows(data) {
		const before = feed.rows.length;
		const changed = feed.merge(data);
		showLoading(data.before > 0);
		if (!list.follows && !data.older) unseen += Math.max(0, feed.rows.length - before);
		for (const row of changed) {
			row.isVisible = isVisible(row);
			open.get(row.key)?.scheduleUpdate();
			if (!isLive(row) && ["load", "tests", "edit"].includes(row.kind)) header.scheduleDriftCheck();
			if (hasFailed(row) && before && !data.older) announcement.textContent = oneLine(`${row.who ?? ""}: ${row.error ?? row.text}`, 200);
		}
		redraw();
		drawStrip();
		showNewest();
		showOmitted();
		if (searchText) searchServer();
		if (pendingEvaluation) openEvaluation(pendingEvaluation);
	},
	header(data) { evicted = data.evicted; header.show(data, feed.clockLead); showOmitted(); },
	gap() { gaps += 1; showOmitted(); },
	lost,
};

let evicted = 0;
function showOmitted() {
	const notes = [], more = [...foundIds].filter((id) => !feed.byId.has(id)).length;
	if (more) notes.push(`${more} more matching entries are in the log, but too old for this page: use Query`);
	if (evicted) notes.push(`${evicted} older entries were removed from the log; their code is in History`);
	if (gaps) notes.push("some output was too fast to display: open a row to see everything that is stored");
	if (feed.dropped) notes.push(`${feed.dropped} older rows are no longer on this page`);
	omitted.hidden = !notes.length;
	omitted.textContent = notes.join("; ");
}

setInterval(() => {
	if (connection.className) return; // it is unknown what is running
	for (const [row, element] of list.elements) if (isLive(row)) fillClock(element, row, feed.clockLead);
	header.tick();
}, CLOCK_INTERVAL_MS);
narrow.addEventListener("change", () => list.scheduleDraw());
header.onOpenEvaluation(openEvaluation);
drawTabs();
drawFilters();
obtainToken().then((token) => follow(token, (event, data) => handlers[event]?.(data))).catch((error) => showConnection(error.message));
