// Elements and texts. Whatever comes from a program becomes text, never markup.
export const el = (name, given = {}, ...inside) => {
	const made = document.createElement(name);
	for (const [key, value] of Object.entries(given)) {
		if (value === undefined || value === null || value === false) continue;
		if (key === "class") made.className = value;
		else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
		else if (key in made && !key.startsWith("aria") && key !== "role") made[key] = value;
		else made.setAttribute(key, value === true ? "" : value);
	}
	if (name === "button") made.type = given.type ?? "button";
	made.append(...inside.flat(2).filter(Boolean));
	return made;
};

export const quiet = (words) => el("p", { class: "quiet" }, plain(words));
export const pre = (text, given) => el("pre", { tabIndex: 0, ...given }, plain(text));
export const listed = (tag, given, texts) => el(tag, given, texts.map((one) => el("li", {}, plain(one))));
export const joined = (words, by = " ") => words.filter(Boolean).join(by);

const SEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const ESCAPES = /\u001b(?:\[[0-?]*[ -\/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** A text as people read it: without a terminal's colours, with what would be invisible or turn the line spelt out. */
export const plain = (text) =>
	String(text ?? "").replace(ESCAPES, "").replace(/\r\n/g, "\n")
		.replace(SEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

export const oneLine = (text, most = 400) => {
	const line = plain(String(text ?? "").slice(0, most * 2)).replace(/\s+/g, " ").trim();
	return line.length > most ? `${line.slice(0, most)}…` : line;
};

/** The first lines of a text, each cut to fit; how many more there are stands behind the last. */
export const firstLines = (text, most = 3) => {
	const lines = plain(String(text ?? "").slice(0, 4000)).trim().split("\n").filter((one) => one.trim());
	const shown = lines.slice(0, most).map((one) => (one.length > 400 ? `${one.slice(0, 400)}…` : one.trimEnd()));
	const more = lines.length - shown.length;
	if (more) shown[shown.length - 1] += `  … ${more} more ${more === 1 ? "line" : "lines"}`;
	return shown.join("\n");
};

const two = (number) => String(number).padStart(2, "0");
export const clock = (ms) => {
	const at = new Date(ms);
	return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
};
export const day = (ms) => {
	const at = new Date(ms);
	return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
};
export const took = (ms) => {
	if (ms === undefined || ms === null || !(ms >= 0)) return "";
	if (ms < 1000) return `${Math.round(ms)} ms`;
	if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
	if (ms < 3600000) return `${Math.floor(ms / 60000)} m ${two(Math.floor(ms / 1000) % 60)} s`;
	return `${Math.floor(ms / 3600000)} h ${two(Math.floor(ms / 60000) % 60)} m`;
};
export const size = (characters) =>
	characters < 1024 ? `${characters} characters` : characters < 1048576
		? `${Math.round(characters / 1024)} KB` : `${(characters / 1048576).toFixed(1)} MB`;

/** A button that copies a text. */
export const copier = (text, label = "Copy") => {
	const button = el("button", { class: "small", onclick: async () => {
		try { await navigator.clipboard.writeText(text()); button.textContent = "Copied"; } catch { button.textContent = "Select it"; }
		setTimeout(() => { button.textContent = label; }, 1200);
	} }, label);
	return button;
};

/** A diff, its lines coloured by what they are. */
export const diffOf = (text) => el("pre", { class: "diff", tabIndex: 0 }, plain(text).split("\n").map((line) =>
	el("span", { class: /^(\+\+\+|---|@@)/.test(line) ? "at" : line[0] === "+" ? "more" : line[0] === "-" ? "less" : "" }, `${line}\n`)));

const spans = (given) => given.map(([tag, text]) => (tag ? el(tag, {}, plain(text)) : plain(text)));

/** Markdown, of the blocks that the server makes of it. */
export const markdown = (blocks) => el("div", { class: "markdown" }, blocks.map((one) =>
	one.tag === "pre" ? pre(one.text)
		: one.tag === "ul" ? el("ul", {}, one.items.map((item) => el("li", {}, spans(item))))
			: one.tag === "table" ? tableOf(one.head.map(plain), one.rows.map((row) => row.map(plain))) : el(one.tag, {}, spans(one.spans))));

export const tableOf = (head, rows) => el("div", { class: "scrolls", tabIndex: 0 }, el("table", {},
	el("thead", {}, el("tr", {}, head.map((one) => el("th", { scope: "col" }, one)))),
	el("tbody", {}, rows.map((row) => el("tr", {}, row.map((one) => el("td", {}, one)))))));
