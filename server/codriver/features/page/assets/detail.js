// What an open row shows: code, whole output, error, notes, pictures, tables; and the two buttons.
import { isLive } from "./feed.js";
import { kindOf } from "./row.js";
import { picturesOf } from "./pictures.js";
import { call, tool } from "./transport.js";
import { copier, diffOf, el, joined, listed, markdown, plain, pre, quiet, size, took } from "./text.js";

const PIECE = 60000, LOOK_MS = 400;

const block = (title, ...inside) => el("section", {}, el("h3", {}, title), inside);

export class Detail {
	/** `resized()` is called whenever its height changed. */
	constructor(row, resized) {
		this.row = row;
		this.height = 80;
		this.body = el("div", { class: "body" }, quiet("…"));
		this.acts = el("div", { class: "acts" });
		this.element = el("div", { class: "detail" }, this.acts, this.body);
		this.sizes = new ResizeObserver(() => {
			if (!this.element.isConnected || Math.abs(this.element.offsetHeight - this.height) < 1) return;
			this.height = this.element.offsetHeight;
			resized();
		});
		this.sizes.observe(this.element);
		this.fill();
	}

	close() {
		this.sizes.disconnect();
		clearTimeout(this.timer);
		this.isClosed = true;
	}

	/** Update the open row: append new output while it runs, and load the whole output once it has ended. */
	changed() {
		this.act();
		if (this.timer || this.isClosed) return;
		this.timer = setTimeout(async () => {
			this.timer = 0;
			if (isLive(this.row) && this.out && kindOf(this.row) !== "tests") await this.out.more(); else await this.fill();
		}, LOOK_MS);
	}

	async fill() {
		try {
			const kind = kindOf(this.row);
			const made = kind === "edit" ? await this.edit() : kind === "said" || kind === "app" ? [pre(this.row.text)] : await this.evaluation();
			if (!this.isClosed) this.body.replaceChildren(...made);
			this.out?.text.scrollTo(0, 1e9);
		} catch (error) {
			this.body.replaceChildren(quiet(error.message));
		}
		this.act();
	}

	async edit() {
		const { files } = await call("diffs", { line: this.row.line });
		const shown = files.map(({ file, diff }) => block(plain(file), diff ? diffOf(diff) : quiet("no difference")));
		return shown.length ? shown : [quiet("the changes are no longer stored")];
	}

	async evaluation() {
		const { row } = this;
		const [{ code, said }, found] = await Promise.all([
			call("code", { evaluation: row.id }), tool("get_evaluation", { evaluationId: row.id, maxImages: 0, detail: true }),
		]);
		const made = [], text = code ?? row.text ?? "";
		const where = row.notebook && `evaluated in the notebook ${row.notebook}, not through this server`;
		for (const words of [row.goal, row.file, where]) if (words) made.push(quiet(words));
		if (kindOf(row) !== "tests" && (code !== null || row.text)) made.push(block("Code", pre(text), copier(() => text)));
		if (!found.ok && found.reason === "unknown-evaluation") {
			if (row.output) made.push(block("Output", pre(row.output)));
			if (row.result) made.push(block("Result", pre(row.result)));
			return [...made, quiet("The server no longer knows this evaluation: this is from its log.")];
		}
		if (found.results?.length) made.push(this.tests(found.results));
		this.out = null;
		if (found.error) made.push(this.error(found.error));
		if (row.hasPrinted || found.stdout || row.began) made.push(...await this.output());
		if (row.pictures) made.push(block("Pictures", el("div", { class: "pictures" }, picturesOf(row))));
		if (found.result !== undefined) made.push(this.result(found));
		if (found.trace) made.push(block("Calls", pre((await tool("get_evaluation", { evaluationId: row.id, part: "trace", length: PIECE })).text)));
		if (found.stacks) made.push(block("Stack", pre(found.stacks)));
		const notes = [...(found.notes ?? []), ...said.slice(1)].filter((one) => !one.startsWith("meanwhile "));
		if (notes.length) made.push(block("Notes", listed("ul", {}, notes)));
		return [...made, el("p", { class: "about" }, plain(joined([row.id, found.ns && `in ${found.ns}`, row.began && took(found.elapsedMs), found.status], " · ")))];
	}

	async output() {
		const made = [];
		for (const part of ["stdout", "stderr"]) {
			const shown = new Output(this.row.id, part), isOut = part === "stdout";
			if (!(await shown.more() || (isOut && isLive(this.row)))) continue;
			if (isOut) this.out = shown;
			made.push(block(isOut ? "Output" : "Error output", shown.element));
		}
		return made;
	}

	result(found) {
		const text = found.result.replace(/<<image-\d+[^>]*>>/g, "").replace(/^\n+|\s+$/g, "");
		const values = found.values?.length > 1 ? found.values.join("\n") : text;
		const raw = pre(values);
		const holder = el("div", {}, text && raw);
		this.show(holder, raw);
		return block("Result", holder, text && copier(() => values));
	}

	/** Shows the value as more than text where there is more: asked of its REPL, which may be busy. */
	async show(holder, raw) {
		let shown = {};
		try { shown = await call("shown", { evaluation: this.row.id }); } catch { /* the text alone */ }
		const made = [];
		if (shown.address) made.push(el("iframe", { src: shown.address, sandbox: "", title: "Table", height: Math.min(480, 36 + 26 * shown.lines) }));
		if (shown.markdown) made.push(markdown(shown.markdown));
		if (shown.latex) made.push(pre(shown.latex));
		if (made.length) holder.replaceChildren(...made, el("details", {}, el("summary", {}, "As text"), raw));
	}

	error(error) {
		const made = [failure(error)];
		for (const one of error.chain ?? []) made.push(quiet(one.relation), failure(one));
		return block("Error", made);
	}

	tests(rows) {
		return block("Tests", el("ul", { class: "tests" }, rows.map((one) => el("li", { class: one.outcome },
			el("strong", {}, plain(joined([one.ns, one.test], "/"))), " ", el("span", { class: "quiet" }, plain(one.outcome)),
			one.message && el("p", {}, plain(one.message)),
			(one.actual || one.expected) && pre(joined([one.expected && `expected: ${one.expected}`, one.actual], "\n")),
			one.frames?.length && listed("ol", { class: "frames" }, one.frames)))));
	}

	act() {
		const { row } = this, made = [];
		if (isLive(row)) {
			made.push(el("button", { class: "stop", onclick: (event) => this.interrupt(event.currentTarget) }, row.status === "queued" ? "Remove from the queue" : "Interrupt"));
		}
		if (row.status === "needs-input") {
			if (this.form) { this.acts.firstChild && this.acts.contains(this.form) || this.acts.append(this.form); return; }
			const field = el("input", { name: "text", "aria-label": "Input for the evaluation", placeholder: "A line of input", autocomplete: "off", spellcheck: false });
			this.form = el("form", { class: "answer", onsubmit: (event) => { event.preventDefault(); this.give(field); } }, field, el("button", { type: "submit" }, "Send"));
			made.push(this.form);
		} else this.form = null;
		const words = this.acts.querySelector(".status");
		this.acts.replaceChildren(...made, ...(words ? [words] : []));
	}

	showStatus(words) {
		this.acts.querySelector(".status")?.remove();
		this.acts.append(el("p", { class: "status", role: "status" }, plain(words)));
	}

	async interrupt(button) {
		button.disabled = true;
		this.showStatus("Interrupting…");
		try {
			const answer = await tool("interrupt_evaluation", { evaluationId: this.row.id });
			this.showStatus((answer.notes ?? []).join("; ") || answer.message || answer.status || "");
		} catch (error) { this.showStatus(error.message); }
		button.disabled = false;
	}

	async give(field) {
		const text = field.value;
		field.value = "";
		try {
			const answer = await tool("send_input", { evaluationId: this.row.id, text: `${text}\n` });
			this.showStatus(answer.ok || answer.status ? `Sent: ${text}` : joined([answer.message, answer.hint], "; "));
			await this.out?.more();
		} catch (error) {
			field.value ||= text;
			this.showStatus(error.message);
		}
	}
}

const failure = (error) => el("div", {}, el("p", { class: "error" }, plain(joined([error.class, error.message], ": "))),
	error.trace?.length && listed("ol", { class: "frames" }, error.trace),
	error.data && pre(error.data), error.locals && el("code", {}, plain(error.locals)));

/** One stream of an evaluation, read on as it grows, from its end where it is long. */
class Output {
	constructor(id, part) {
		Object.assign(this, { id, part, from: 0, total: 0, first: 0 });
		this.text = pre("", { class: part });
		this.before = el("button", { class: "small", hidden: true, onclick: () => this.earlier() });
		this.element = el("div", {}, this.before, this.text);
	}

	read(from, length) {
		return tool("get_evaluation", { evaluationId: this.id, part: this.part, from, length });
	}

	/** Reads what is new, of much its end alone; whether there is anything. */
	async more() {
		let answer = await this.read(this.from, PIECE);
		if (answer.text === undefined) return this.total > 0;
		this.total = answer.totalCharacters;
		if (this.total - this.from > PIECE) {
			this.first = this.total - PIECE / 2;
			this.text.textContent = "";
			answer = await this.read(this.first, PIECE);
		}
		const atEnd = this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 8;
		this.from = answer.next ?? answer.totalCharacters ?? this.from;
		this.text.append(plain(answer.text ?? ""));
		if (atEnd) this.text.scrollTop = this.text.scrollHeight;
		this.label();
		return this.total > 0;
	}

	label() {
		this.before.hidden = this.first <= 0;
		this.before.textContent = `${size(this.first)} before: show more`;
	}

	async earlier() {
		const from = Math.max(0, this.first - PIECE);
		const answer = await this.read(from, this.first - from);
		this.text.prepend(plain(answer.text ?? ""));
		this.first = answer.from > from ? 0 : from;
		this.label();
	}
}
