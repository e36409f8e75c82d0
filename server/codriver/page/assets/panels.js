// The views beside the rows: questions in Datalog, the handoff, runs of before, the history.
import { call, query, tool } from "./transport.js";
import { EXAMPLES } from "./examples.js";
import { clock, copier, day, el, oneLine, plain, tableOf } from "./text.js";

const quiet = (words) => el("p", { class: "quiet" }, words);
const MOST = 500;

/** The views by name, each with its title, `show(holder)` and perhaps `search(text)`. */
export function panels({ leadTo, feed, search }) {
  const fail = (place) => (error) => place.replaceChildren(el("p", { class: "error", role: "alert" }, plain(error.message)));

  /* Questions */

  const asked = el("textarea", { rows: 4, spellcheck: false, "aria-label": "Datalog query", placeholder: "[:find ?line ?text :where [?e :output/line ?line] [?e :output/text ?text]]" });
  const inputs = el("input", { spellcheck: false, autocomplete: "off", "aria-label": "Inputs, as JSON", placeholder: 'inputs for :in, as JSON: ["price"]' });
  const answers = el("div", { class: "answers", "aria-live": "polite" });

  const idOf = async (value) => {
    const found = typeof value === "number"
      ? await query("[:find ?id . :in $ ?line :where [?e :output/line ?line] [?e :output/evaluation ?id]]", [value]) : null;
    return found?.result ?? null;
  };
  const textOf = (value) => plain(typeof value === "string" ? value : JSON.stringify(value));

  /** The evaluation that a row of an answer is about: its id in it, else that of the first line in it that has one. */
  async function follow(row, names) {
    const flat = row.flatMap((one) => (one && typeof one === "object" ? Object.values(one) : [one]));
    for (const one of flat) if (typeof one === "string" && /^[0-9a-f]{4}-\d+$/.test(one) && leadTo(one)) return;
    const lines = row.flatMap((one, place) => (typeof one === "number" && /line|^\?l$/.test(names[place] ?? "") ? [one] : one?.line ? [one.line] : []));
    for (const line of lines.length ? lines : flat.filter((one) => Number.isInteger(one))) {
      const id = await idOf(line);
      if (id && leadTo(id)) return;
    }
    const text = flat.find((one) => typeof one === "string" && one.length > 2);
    const like = feed.rows.findLast((one) => one.text === text || one.result === text || one.output === text);
    if (like) leadTo(like.id);
  }

  async function ask() {
    answers.replaceChildren(quiet("…"));
    try {
      const given = inputs.value.trim() ? JSON.parse(inputs.value) : [];
      const answer = await query(asked.value, Array.isArray(given) ? given : [given], MOST);
      const names = (/:find\s+(.*?)(?::in|:where|:with|\])/s.exec(asked.value)?.[1] ?? "").match(/\([^()]*(?:\([^()]*\)[^()]*)*\)|\S+/g) ?? [];
      const rows = (Array.isArray(answer.result) ? answer.result : [answer.result]).map((row) => (Array.isArray(row) ? row : [row]));
      const words = `${answer.count} ${answer.count === 1 ? "row" : "rows"}${answer.cut ? ", and more" : ""}`;
      const shown = rows.map((row) => row.map((one, place) => (place ? textOf(one)
        : el("button", { type: "button", class: "lead", title: "Show its evaluation", onclick: () => follow(row, names) }, textOf(one)))));
      const head = names.length && rows[0]?.length === names.length ? names : (rows[0] ?? []).map((_, place) => `${place + 1}`);
      answers.replaceChildren(quiet([words, ...(answer.notes ?? [])].join("; ")), ...(rows.length ? [tableOf(head.map(plain), shown)] : []));
    } catch (error) { fail(answers)(error); }
  }

  const examples = () => el("ul", { class: "examples" }, EXAMPLES.map(([words, text, given]) => el("li", {},
    el("button", { type: "button", class: "lead", onclick: () => { asked.value = text; inputs.value = given; ask(); } }, words))));

  const questions = {
    title: "Query",
    show(holder) {
      const form = el("form", { class: "asking", onsubmit: (event) => { event.preventDefault(); ask(); } }, asked,
        el("div", { class: "line-of" }, inputs, el("button", {}, "Ask")));
      asked.onkeydown = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); } };
      holder.replaceChildren(el("div", { class: "two" }, el("div", {}, form, answers),
        el("aside", {}, el("h2", {}, "Examples"), examples(), quiet("Ctrl+Enter asks. $history has the code of earlier runs, $memory their logs, $app what applications do."))));
    },
    search(text) {
      asked.value = "[:find ?line ?who ?text :in $ ?part :where [?e :output/text ?text] [(clojure.string/includes? ?text ?part)] [?e :output/line ?line] [?e :output/who ?who]]";
      inputs.value = JSON.stringify([text]);
      ask();
    },
  };

  /* Handoff */

  const handoff = {
    title: "Handoff",
    async show(holder) {
      holder.replaceChildren(quiet("…"));
      try {
        const { text } = await call("handoff");
        const [first, ...rest] = plain(text).split("\n");
        const made = [];
        for (const line of rest) {
          const named = /^([A-Z][^:]{2,60}): (.*)$/s.exec(line);
          if (named) made.push(el("section", {}, el("h2", {}, named[1]), el("ul", {}, named[2].split("; ").map((one) => el("li", {}, ...linked(one))))));
          else if (line.trim()) made.push(el("p", {}, ...linked(line)));
        }
        holder.replaceChildren(el("article", { class: "handoff" }, quiet(first), made, copier(() => text, "Copy it")));
      } catch (error) { fail(holder)(error); }
    },
  };
  const linked = (text) => text.split(/\b([0-9a-f]{4}-\d+)\b/).map((part, place) => (place % 2
    ? el("button", { type: "button", class: "lead", onclick: () => leadTo(part) }, part) : part));

  /* Runs of before */

  const ofRun = "[:find ?line ?when ?category ?who ?text :in $ $memory ?run :where [$memory ?e :output/run ?run] [$memory ?e :output/line ?line] [$memory ?e :output/timestamp ?when] [$memory ?e :output/category ?category] [(get-else $memory ?e :output/who \"\") ?who] [$memory ?e :output/text ?text]]";
  const SIGNS = { evaluatedCode: "›", evaluationResults: "=", evaluationErrorOutput: "!", otherErrorOutput: "!" };

  async function showRun(column, run) {
    column.replaceChildren(quiet("…"));
    try {
      const { result, cut } = await query(ofRun, [run], 5000);
      const rows = result.sort((a, b) => a[0] - b[0]);
      column.replaceChildren(el("h2", {}, run), quiet(`${rows.length} entries${cut ? ", and more" : ""}`), el("ol", { class: "run" }, rows.map(([, when, category, who, text]) =>
        el("li", { class: category }, el("span", { class: "time" }, clock(when)), el("span", { class: "who" }, plain(who)), el("pre", {}, `${SIGNS[category] ?? " "} ${plain(text.length > 4000 ? `${text.slice(0, 4000)}…` : text).trimEnd()}`)))));
    } catch (error) { fail(column)(error); }
  }

  const runs = {
    title: "Runs",
    async show(holder) {
      holder.replaceChildren(quiet("…"));
      try {
        const { result } = await query("[:find ?run (min ?when) (max ?when) (count ?e) :in $ $memory :where [$memory ?e :output/run ?run] [$memory ?e :output/timestamp ?when]]");
        if (!result.length) return holder.replaceChildren(quiet("No run of before is remembered yet."));
        const columns = [el("div", { class: "column" }), el("div", { class: "column" })];
        let turn = 1;
        const list = result.sort((a, b) => b[1] - a[1]).map(([run, from, to, count]) => el("li", {},
          el("button", { type: "button", class: "lead", onclick: () => { turn = 1 - turn; showRun(columns[turn], run); } }, `${day(from)} – ${clock(to)}`),
          el("span", { class: "quiet" }, ` ${count} entries`)));
        holder.replaceChildren(el("ul", { class: "runs" }, list), quiet("Two can be looked at side by side: choose one, then the other."), el("div", { class: "columns" }, columns));
        return undefined;
      } catch (error) { return fail(holder)(error); }
    },
  };

  /* History */

  const OF_HISTORY = "[:find ?line ?when ?who ?key ?code :in $ $history ?part :where [$history ?e :output/text ?code] [(clojure.string/includes? ?code ?part)] [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] [(get-else $history ?e :output/who \"\") ?who] [(get-else $history ?e :output/repl-session-key \"\") ?key]]";
  const found = el("div", { "aria-live": "polite" });

  async function seek(part) {
    found.replaceChildren(quiet("…"));
    try {
      const { result, cut } = await query(OF_HISTORY, [part], 2000);
      const rows = result.sort((a, b) => b[0] - a[0]).slice(0, 300);
      found.replaceChildren(quiet(`${result.length}${cut ? " or more" : ""} pieces of code${part ? ` with “${part}”` : ""}, the newest first`),
        el("ol", { class: "run" }, rows.map(([, when, who, key, code]) => el("li", {}, el("span", { class: "time" }, day(when)),
          el("span", { class: "who" }, plain([who, key].filter(Boolean).join(" "))), el("pre", {}, plain(code.length > 4000 ? `${code.slice(0, 4000)}…` : code)), copier(() => code)))));
    } catch (error) { fail(found)(error); }
  }

  const FORGETS = "codriver forget --all";
  const history = {
    title: "History",
    show(holder) {
      holder.replaceChildren(el("p", { class: "quiet line-of" }, "Code evaluated in this workspace over all runs. Search it above, by Enter. To forget what is remembered:",
        el("code", {}, FORGETS), copier(() => FORGETS)), found);
      seek(search.value.trim());
    },
    search: seek,
  };

  return { query: questions, handoff, runs, history };
}
