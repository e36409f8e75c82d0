// The other views: Datalog queries, the handoff, earlier runs, and the history.
import { call, query } from "./transport.js";
import { clock, copyButton, day, el, plain, quiet, tableElement } from "./text.js";

/** Fill an element with the children that `load` returns, or with the error message. */
async function fill(element, load) {
	element.replaceChildren(quiet("…"));
	try {
		element.replaceChildren(...(await load()));
	} catch (error) {
		element.replaceChildren(el("p", { class: "error", role: "alert" }, plain(error.message)));
	}
}

/** Return a list of texts, each with its time and caller. */
const entryList = (rows) => el("ol", { class: "run" }, rows.map(([time, who, text, name]) => el("li", { class: name },
	el("span", { class: "time" }, time), el("span", { class: "who" }, plain(who)), el("pre", {}, plain(text).trimEnd()))));

/** Return the views by name. Each has a title and `show(holder)`, and may have `search(text)`. */
export function createViews({ openEvaluation, search }) {
	const linkButton = (text, title, onclick) => el("button", { class: "lead", title, onclick }, text);

	/* Queries */

	const FIRST_EXAMPLE = "Which result belongs to which code?";

	const queryField = el("textarea", { rows: 4, autocomplete: "off", spellcheck: false, "aria-label": "Datalog query", placeholder: "[:find ?line ?text :where [?e :output/line ?line] [?e :output/text ?text]]" });
	const inputs = el("input", { spellcheck: false, autocomplete: "off", "aria-label": "Inputs, as JSON", placeholder: 'for :in, as JSON: ["price"]' });
	const answers = el("div", { "aria-live": "polite" });
	const textOf = (value) => plain(typeof value === "string" ? value : JSON.stringify(value));
	const openRow = async (row) => openEvaluation((await call("lead", { row })).evaluation);

	const runQuery = () => fill(answers, async () => {
		const values = inputs.value.trim() ? JSON.parse(inputs.value) : [];
		const { result, count, cut, notes = [] } = await query(queryField.value, Array.isArray(values) ? values : [values]);
		const rows = (Array.isArray(result) ? result : [result]).map((row) => (Array.isArray(row) ? row : [row]));
		const names = queryField.value.split(/:find|:in\b|:where|:with/)[1]?.match(/\([^()]*(?:\([^()]*\)[^()]*)*\)|[^\s\]]+/g) ?? [];
		const cells = rows.map((row) => row.map((value, index) => (index ? textOf(value) : linkButton(textOf(value), "Show its evaluation", () => openRow(row)))));
		const head = names.length === rows[0]?.length ? names : (rows[0] ?? []).map((_, index) => `${index + 1}`);
		return [quiet([`${count} ${count === 1 ? "row" : "rows"}${cut ? ", and more" : ""}`, ...notes].join("; ")), rows.length ? tableElement(head, cells) : ""];
	});

	const queryView = {
		title: "Query",
		async show(holder) {
			const examples = el("ul", { class: "plain" });
			queryField.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) runQuery(); };
			const form = el("form", { onsubmit: (event) => { event.preventDefault(); runQuery(); } }, queryField, el("div", { class: "inputs" }, inputs, el("button", { type: "submit" }, "Run")));
			holder.replaceChildren(el("div", { class: "two" }, el("div", {}, form, answers),
				el("aside", {}, el("h2", {}, "Examples"), examples, quiet("Ctrl+Enter runs the query. $history has the code of earlier runs, $memory their logs, $app the events of applications."))));
			const choose = ([, text, inputsText]) => { queryField.value = text; inputs.value = inputsText; runQuery(); };
			fill(examples, async () => {
				const { examples: found } = await call("examples");
				if (!queryField.value) choose(found.find(([title]) => title === FIRST_EXAMPLE) ?? found[0]);
				return found.map((example) => el("li", {}, linkButton(example[0], example[1], () => choose(example))));
			});
		},
	};

	/* Handoff */

	const withLinks = (text) => plain(text).split(/\b([0-9a-f]{4}-\d+)\b/).map((part, index) => (index % 2 ? linkButton(part, "Show it", () => openEvaluation(part)) : part));
	const handoff = {
		title: "Handoff",
		show: (holder) => fill(holder, async () => {
			const { text, first, sections } = await call("handoff");
			return [el("article", {}, quiet(first), sections.map(([title, parts]) => el("section", {}, title && el("h2", {}, plain(title)),
				el("ul", {}, parts.map((part) => el("li", {}, withLinks(part)))))), copyButton(() => text, "Copy"))];
		}),
	};

	/* Earlier runs */

	const SIGNS = { evaluatedCode: "› ", evaluationResults: "= ", evaluationErrorOutput: "! ", otherErrorOutput: "! " };
	const runs = {
		title: "Runs",
		show: (holder) => fill(holder, async () => {
			const { rows } = await call("runs"), columns = [el("div"), el("div")];
			let last = 1;
			const show = (run) => fill(columns[last = 1 - last], async () => {
				const entries = (await call("run", { run })).rows;
				return [el("h2", {}, plain(run)), entryList(entries.map(([when, kind, who, text]) => [clock(when), who, (SIGNS[kind] ?? "  ") + text, kind]))];
			});
			if (!rows.length) return [quiet("No earlier run is stored yet.")];
			return [el("ul", { class: "plain" }, rows.map(([run, from, to, count]) => el("li", {}, linkButton(`${day(from)} – ${clock(to)}`, run, () => show(run)), ` ${count} entries`))),
				quiet("Choose two runs to compare them side by side."), el("div", { class: "columns" }, columns)];
		}),
	};

	/* History */

	const found = el("div", { "aria-live": "polite" });
	const searchHistory = (part) => fill(found, async () => {
		const { rows, count, forget } = await call("history", { part });
		return [quiet(`${count} evaluations${part ? ` with “${part}”` : ""}, newest first. To delete them all:`), el("p", { class: "inputs" }, el("code", {}, forget), copyButton(() => forget)),
			entryList(rows.map(([when, who, key, code]) => [day(when), `${who} ${key}`, code]))];
	});
	const history = {
		title: "History",
		show(holder) {
			holder.replaceChildren(quiet("Code evaluated in this workspace, in all runs. Type in the search field and press Enter."), found);
			searchHistory(search.value.trim());
		},
		search: searchHistory,
	};

	return { query: queryView, handoff, runs, history };
}
