// Creates elements and formats text. Output of programs is inserted as text, never as markup.
export const el = (name, attributes = {}, ...children) => {
	const made = document.createElement(name);
	for (const [key, value] of Object.entries(attributes)) {
		if (value === undefined || value === null || value === false) continue;
		if (key === "class") made.className = value;
		else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
		else if (key in made && !key.startsWith("aria") && key !== "role") made[key] = value;
		else made.setAttribute(key, value === true ? "" : value);
	}
	if (name === "button") made.type = attributes.type ?? "button";
	made.append(...children.flat(2).filter(Boolean));
	return made;
};

export const quiet = (text) => el("p", { class: "quiet" }, plain(text));
export const pre = (text, attributes) => el("pre", { tabIndex: 0, ...attributes }, plain(text));
export const listOf = (tag, attributes, texts) => el(tag, attributes, texts.map((text) => el("li", {}, plain(text))));
export const join = (texts, separator = " ") => texts.filter(Boolean).join(separator);

const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const ESCAPES = /\u001b(?:\[[0-?]*[ -\/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Return a text without terminal escapes, in which characters that are invisible or change the text direction are escaped. */
export const plain = (text) =>
	String(text ?? "").replace(ESCAPES, "").replace(/\r\n/g, "\n")
		.replace(INVISIBLE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

export const oneLine = (text, most = 400) => {
	const line = plain(String(text ?? "").slice(0, most * 2)).replace(/\s+/g, " ").trim();
	return line.length > most ? `${line.slice(0, most)}…` : line;
};

/** Return the first lines of a text, truncated if they are long, and the number of the lines that follow. */
export const firstLines = (text, most = 3) => {
	const lines = plain(String(text ?? "").slice(0, 4000)).trim().split("\n").filter((line) => line.trim());
	const first = lines.slice(0, most).map((line) => (line.length > 400 ? `${line.slice(0, 400)}…` : line.trimEnd()));
	const more = lines.length - first.length;
	if (more) first[first.length - 1] += `  … ${more} more ${more === 1 ? "line" : "lines"}`;
	return first.join("\n");
};

const padTwo = (number) => String(number).padStart(2, "0");
export const clock = (ms) => {
	const at = new Date(ms);
	return `${padTwo(at.getHours())}:${padTwo(at.getMinutes())}:${padTwo(at.getSeconds())}`;
};
export const day = (ms) => {
	const at = new Date(ms);
	return `${at.getFullYear()}-${padTwo(at.getMonth() + 1)}-${padTwo(at.getDate())} ${clock(ms)}`;
};
export const formatDuration = (ms) => {
	if (ms === undefined || ms === null || !(ms >= 0)) return "";
	if (ms < 1000) return `${Math.round(ms)} ms`;
	if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
	if (ms < 3600000) return `${Math.floor(ms / 60000)} m ${padTwo(Math.floor(ms / 1000) % 60)} s`;
	return `${Math.floor(ms / 3600000)} h ${padTwo(Math.floor(ms / 60000) % 60)} m`;
};
export const formatSize = (characters) =>
	characters < 1024 ? `${characters} characters` : characters < 1048576
		? `${Math.round(characters / 1024)} KB` : `${(characters / 1048576).toFixed(1)} MB`;

/** Return a button that copies a text. */
export const copyButton = (text, label = "Copy") => {
	const button = el("button", { class: "small", onclick: async () => {
		try { await navigator.clipboard.writeText(text()); button.textContent = "Copied"; } catch { button.textContent = "Select it"; }
		setTimeout(() => { button.textContent = label; }, 1200);
	} }, label);
	return button;
};

/** Return a diff with coloured lines. */
export const diffElement = (text) => el("pre", { class: "diff", tabIndex: 0 }, plain(text).split("\n").map((line) =>
	el("span", { class: /^(\+\+\+|---|@@)/.test(line) ? "location" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "" }, `${line}\n`)));

const spanElements = (spans) => spans.map(([tag, text]) => (tag ? el(tag, {}, plain(text)) : plain(text)));

/** Return an element for Markdown that the server has parsed into blocks. */
export const markdown = (blocks) => el("div", { class: "markdown" }, blocks.map((block) =>
	block.tag === "pre" ? pre(block.text)
		: block.tag === "ul" ? el("ul", {}, block.items.map((item) => el("li", {}, spanElements(item))))
			: block.tag === "table" ? tableElement(block.head.map(plain), block.rows.map((row) => row.map(plain))) : el(block.tag, {}, spanElements(block.spans))));

export const tableElement = (head, rows) => el("div", { class: "scrolls", tabIndex: 0 }, el("table", {},
	el("thead", {}, el("tr", {}, head.map((cell) => el("th", { scope: "col" }, cell)))),
	el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))))));
