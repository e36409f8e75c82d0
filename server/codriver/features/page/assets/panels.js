// The views beside the rows: questions in Datalog, the handoff, runs of before, the history.
import { call, query } from "./transport.js";
import { clock, copier, day, el, plain, quiet, tableOf } from "./text.js";

/** Fills a place with what it is made of, which is to come, or with the words of what went wrong. */
async function fill(place, making) {
	place.replaceChildren(quiet("…"));
	try {
		place.replaceChildren(...(await making()));
	} catch (error) {
		place.replaceChildren(el("p", { class: "error", role: "alert" }, plain(error.message)));
	}
}

/** A list of texts, each with its time and whose it is. */
const listOf = (rows) => el("ol", { class: "run" }, rows.map(([time, who, text, name]) => el("li", { class: name },
	el("span", { class: "time" }, time), el("span", { class: "who" }, plain(who)), el("pre", {}, plain(text).trimEnd()))));

/** The views by name, each with its title, `show(holder)` and perhaps `search(text)`. */
export function panels({ leadTo, search }) {
	const lead = (words, title, onclick) => el("button", { class: "lead", title, onclick }, words);

	/* Questions */

	const FIRST = "Which result belongs to which code?";

	const asked = el("textarea", { rows: 4, autocomplete: "off", spellcheck: false, "aria-label": "Datalog query", placeholder: "[:find ?line ?text :where [?e :output/line ?line] [?e :output/text ?text]]" });
	const inputs = el("input", { spellcheck: false, autocomplete: "off", "aria-label": "Inputs, as JSON", placeholder: 'for :in, as JSON: ["price"]' });
	const answers = el("div", { "aria-live": "polite" });
	const textOf = (value) => plain(typeof value === "string" ? value : JSON.stringify(value));
	const follow = async (row) => leadTo((await call("lead", { row })).evaluation);

	const ask = () => fill(answers, async () => {
		const given = inputs.value.trim() ? JSON.parse(inputs.value) : [];
		const { result, count, cut, notes = [] } = await query(asked.value, Array.isArray(given) ? given : [given]);
		const rows = (Array.isArray(result) ? result : [result]).map((row) => (Array.isArray(row) ? row : [row]));
		const names = asked.value.split(/:find|:in\b|:where|:with/)[1]?.match(/\([^()]*(?:\([^()]*\)[^()]*)*\)|[^\s\]]+/g) ?? [];
		const shown = rows.map((row) => row.map((one, at) => (at ? textOf(one) : lead(textOf(one), "Show its evaluation", () => follow(row)))));
		const head = names.length === rows[0]?.length ? names : (rows[0] ?? []).map((_, at) => `${at + 1}`);
		return [quiet([`${count} ${count === 1 ? "row" : "rows"}${cut ? ", and more" : ""}`, ...notes].join("; ")), rows.length ? tableOf(head, shown) : ""];
	});

	const questions = {
		title: "Query",
		async show(holder) {
			const examples = el("ul", { class: "plain" });
			asked.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(); };
			const form = el("form", { onsubmit: (event) => { event.preventDefault(); ask(); } }, asked, el("div", { class: "line-of" }, inputs, el("button", { type: "submit" }, "Run")));
			holder.replaceChildren(el("div", { class: "two" }, el("div", {}, form, answers),
				el("aside", {}, el("h2", {}, "Examples"), examples, quiet("Ctrl+Enter runs the query. $history has the code of earlier runs, $memory their logs, $app the events of applications."))));
			const choose = ([, text, given]) => { asked.value = text; inputs.value = given; ask(); };
			fill(examples, async () => {
				const { examples: found } = await call("examples");
				if (!asked.value) choose(found.find(([words]) => words === FIRST) ?? found[0]);
				return found.map((one) => el("li", {}, lead(one[0], one[1], () => choose(one))));
			});
		},
	};

	/* Handoff */

	const linked = (text) => plain(text).split(/\b([0-9a-f]{4}-\d+)\b/).map((part, at) => (at % 2 ? lead(part, "Show it", () => leadTo(part)) : part));
	const handoff = {
		title: "Handoff",
		show: (holder) => fill(holder, async () => {
			const { text, first, sections } = await call("handoff");
			return [el("article", {}, quiet(first), sections.map(([title, parts]) => el("section", {}, title && el("h2", {}, plain(title)),
				el("ul", {}, parts.map((one) => el("li", {}, linked(one)))))), copier(() => text, "Copy"))];
		}),
	};

	/* Runs of before */

	const SIGNS = { evaluatedCode: "› ", evaluationResults: "= ", evaluationErrorOutput: "! ", otherErrorOutput: "! " };
	const runs = {
		title: "Runs",
		show: (holder) => fill(holder, async () => {
			const { rows } = await call("runs"), columns = [el("div"), el("div")];
			let turn = 1;
			const show = (run) => fill(columns[turn = 1 - turn], async () => {
				const entries = (await call("run", { run })).rows;
				return [el("h2", {}, plain(run)), listOf(entries.map(([when, kind, who, text]) => [clock(when), who, (SIGNS[kind] ?? "  ") + text, kind]))];
			});
			if (!rows.length) return [quiet("No earlier run is stored yet.")];
			return [el("ul", { class: "plain" }, rows.map(([run, from, to, count]) => el("li", {}, lead(`${day(from)} – ${clock(to)}`, run, () => show(run)), ` ${count} entries`))),
				quiet("Choose two runs to compare them side by side."), el("div", { class: "columns" }, columns)];
		}),
	};

	/* History */

	const found = el("div", { "aria-live": "polite" });
	const seek = (part) => fill(found, async () => {
		const { rows, count, forget } = await call("history", { part });
		return [quiet(`${count} evaluations${part ? ` with “${part}”` : ""}, newest first. To delete them all:`), el("p", { class: "line-of" }, el("code", {}, forget), copier(() => forget)),
			listOf(rows.map(([when, who, key, code]) => [day(when), `${who} ${key}`, code]))];
	});
	const history = {
		title: "History",
		show(holder) {
			holder.replaceChildren(quiet("Code evaluated in this workspace, in all runs. Type in the search field and press Enter."), found);
			seek(search.value.trim());
		},
		search: seek,
	};

	return { query: questions, handoff, runs, history };
}
