// Elements and texts. Whatever comes from a program becomes text, never markup.
export const el = (name, given = {}, ...inside) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && !key.startsWith("aria") && key !== "role" && key !== "list") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inside.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return made;
};

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
  const button = el("button", { type: "button", class: "small", onclick: async () => {
    try { await navigator.clipboard.writeText(text()); button.textContent = "Copied"; } catch { button.textContent = "Select it"; }
    setTimeout(() => { button.textContent = label; }, 1200);
  } }, label);
  return button;
};

/** A diff, its lines coloured by what they are. */
export const diffOf = (text) => el("pre", { class: "diff", tabIndex: 0 }, plain(text).split("\n").map((line) =>
  el("span", { class: /^(\+\+\+|---|@@)/.test(line) ? "at" : line[0] === "+" ? "more" : line[0] === "-" ? "less" : "" }, `${line}\n`)));

const inline = (text) => {
  const parts = [];
  let rest = text;
  while (rest) {
    const found = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]*)\]\(([^)\s]*)\)/.exec(rest);
    if (!found) break;
    parts.push(rest.slice(0, found.index));
    if (found[1] !== undefined) parts.push(el("code", {}, found[1]));
    else if (found[2] !== undefined) parts.push(el("strong", {}, found[2]));
    else if (found[3] !== undefined) parts.push(el("em", {}, found[3]));
    else parts.push(`${found[4]} (${found[5]})`); // an address is shown and leads nowhere: a program wrote it
    rest = rest.slice(found.index + found[0].length);
  }
  return [...parts, rest];
};

/** Markdown, as far as notebooks use it: headings, lists, code, emphasis, tables as text. No link leads anywhere. */
export const markdown = (given) => {
  const made = el("div", { class: "markdown" });
  const lines = plain(given).split("\n");
  let list = null;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at];
    const heading = /^(#{1,6})\s+(.*)/.exec(line), item = /^\s*(?:[-*+]|\d+\.)\s+(.*)/.exec(line);
    if (!item) list = null;
    if (line.startsWith("```")) {
      const code = [];
      while (++at < lines.length && !lines[at].startsWith("```")) code.push(lines[at]);
      made.append(el("pre", {}, code.join("\n")));
    } else if (/^\s*\|.*\|\s*$/.test(line)) {
      const rows = [line];
      while (/^\s*\|.*\|\s*$/.test(lines[at + 1] ?? "")) rows.push(lines[++at]);
      const cells = rows.filter((row) => !/^[\s|:-]+$/.test(row)).map((row) => row.trim().slice(1, -1).split("|"));
      made.append(tableOf(cells[0], cells.slice(1)));
    } else if (heading) made.append(el(`h${Math.min(6, heading[1].length + 2)}`, {}, inline(heading[2])));
    else if (item) {
      if (!list) made.append(list = el("ul"));
      list.append(el("li", {}, inline(item[1])));
    } else if (line.trim()) made.append(el("p", {}, inline(line)));
  }
  return made;
};

export const tableOf = (head, rows) => el("div", { class: "scrolls", tabIndex: 0 }, el("table", {},
  el("thead", {}, el("tr", {}, head.map((one) => el("th", { scope: "col" }, one)))),
  el("tbody", {}, rows.map((row) => el("tr", {}, row.map((one) => el("td", {}, one)))))));
