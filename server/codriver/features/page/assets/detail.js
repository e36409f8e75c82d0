// The details of an open row: its code, complete output, error, notes, pictures and tables, and the buttons that act on it.
import { isLive } from "./feed.js";
import { kindOf } from "./row.js";
import { picturesOf } from "./pictures.js";
import { call, tool } from "./transport.js";
import { copyButton, diffElement, el, formatDuration, formatSize, join, listOf, markdown, plain, pre, quiet } from "./text.js";

const CHUNK_CHARACTERS = 60000, UPDATE_DELAY_MS = 400;

const block = (title, ...children) => el("section", {}, el("h3", {}, title), children);

export class Detail {
	/** `onResize()` is called when the height has changed. */
	constructor(row, onResize) {
		this.row = row;
		this.height = 80;
		this.body = el("div", { class: "body" }, quiet("…"));
		this.buttons = el("div", { class: "buttons" });
		this.element = el("div", { class: "detail" }, this.buttons, this.body);
		this.resizeObserver = new ResizeObserver(() => {
			if (!this.element.isConnected || Math.abs(this.element.offsetHeight - this.height) < 1) return;
			this.height = this.element.offsetHeight;
			onResize();
		});
		this.resizeObserver.observe(this.element);
		this.load();
	}

	close() {
		this.resizeObserver.disconnect();
		clearTimeout(this.timer);
		this.isClosed = true;
	}

	/** Update the details: append new output of a running evaluation, or load everything once it has ended. */
	scheduleUpdate() {
		this.updateButtons();
		if (this.timer || this.isClosed) return;
		this.timer = setTimeout(async () => {
			this.timer = 0;
			if (isLive(this.row) && this.out && kindOf(this.row) !== "tests") await this.out.readMore(); else await this.load();
		}, UPDATE_DELAY_MS);
	}

	async load() {
		try {
			const kind = kindOf(this.row);
			const children = kind === "edit" ? await this.edit() : kind === "message" || kind === "app" ? [pre(this.row.text)] : await this.evaluation();
			if (!this.isClosed) this.body.replaceChildren(...children);
			this.out?.text.scrollTo(0, 1e9);
		} catch (error) {
			this.body.replaceChildren(quiet(error.message));
		}
		this.updateButtons();
	}

	async edit() {
		const { files } = await call("diffs", { line: this.row.line });
		const diffs = files.map(({ file, diff }) => block(plain(file), diff ? diffElement(diff) : quiet("no difference")));
		return diffs.length ? diffs : [quiet("the changes are no longer stored")];
	}

	async evaluation() {
		const { row } = this;
		const [{ code, otherOutput }, found] = await Promise.all([
			call("code", { evaluation: row.id }), tool("get_evaluation", { evaluationId: row.id, maxImages: 0, detail: true }),
		]);
		const made = [], text = code ?? row.text ?? "";
		const where = row.notebook && `evaluated in the notebook ${row.notebook}, not through this server`;
		for (const note of [row.goal, row.file, where]) if (note) made.push(quiet(note));
		if (kindOf(row) !== "tests" && (code !== null || row.text)) made.push(block("Code", pre(text), copyButton(() => text)));
		if (!found.ok && found.reason === "unknown-evaluation") {
			if (row.output) made.push(block("Output", pre(row.output)));
			if (row.result) made.push(block("Result", pre(row.result)));
			return [...made, quiet("The server no longer stores this evaluation. This is from its log.")];
		}
		if (found.results?.length) made.push(this.tests(found.results));
		this.out = null;
		if (found.error) made.push(this.error(found.error));
		if (row.hasPrinted || found.stdout || row.startedAt) made.push(...await this.output());
		if (row.pictures) made.push(block("Pictures", el("div", { class: "pictures" }, picturesOf(row))));
		if (found.result !== undefined) made.push(this.result(found));
		if (found.trace) made.push(block("Calls", pre((await tool("get_evaluation", { evaluationId: row.id, part: "trace", length: CHUNK_CHARACTERS })).text)));
		if (found.stacks) made.push(block("Stack", pre(found.stacks)));
		const notes = [...(found.notes ?? []), ...otherOutput.slice(1)].filter((note) => !note.startsWith("meanwhile "));
		if (notes.length) made.push(block("Notes", listOf("ul", {}, notes)));
		return [...made, el("p", { class: "about" }, plain(join([row.id, found.ns && `in ${found.ns}`, row.startedAt && formatDuration(found.elapsedMs), found.status], " · ")))];
	}

	async output() {
		const made = [];
		for (const part of ["stdout", "stderr"]) {
			const output = new Output(this.row.id, part), isOut = part === "stdout";
			if (!(await output.readMore() || (isOut && isLive(this.row)))) continue;
			if (isOut) this.out = output;
			made.push(block(isOut ? "Output" : "Error output", output.element));
		}
		return made;
	}

	result(found) {
		const text = found.result.replace(/<<image-\d+[^>]*>>/g, "").replace(/^\n+|\s+$/g, "");
		const values = found.values?.length > 1 ? found.values.join("\n") : text;
		const raw = pre(values);
		const holder = el("div", {}, text && raw);
		this.addRichFormats(holder, raw);
		return block("Result", holder, text && copyButton(() => values));
	}

	/** Display the value in formats other than text, if it has any. The REPL provides them, and may be busy. */
	async addRichFormats(holder, raw) {
		let rich = {};
		try { rich = await call("rich-formats", { evaluation: this.row.id }); } catch { /* only display the text */ }
		const made = [];
		if (rich.address) made.push(el("iframe", { src: rich.address, sandbox: "", title: "Table", height: Math.min(480, 36 + 26 * rich.lines) }));
		if (rich.markdown) made.push(markdown(rich.markdown));
		if (rich.latex) made.push(pre(rich.latex));
		if (made.length) holder.replaceChildren(...made, el("details", {}, el("summary", {}, "As text"), raw));
	}

	error(error) {
		const made = [failure(error)];
		for (const link of error.chain ?? []) made.push(quiet(link.relation), failure(link));
		return block("Error", made);
	}

	tests(rows) {
		return block("Tests", el("ul", { class: "tests" }, rows.map((test) => el("li", { class: test.outcome },
			el("strong", {}, plain(join([test.ns, test.test], "/"))), " ", el("span", { class: "quiet" }, plain(test.outcome)),
			test.message && el("p", {}, plain(test.message)),
			(test.actual || test.expected) && pre(join([test.expected && `expected: ${test.expected}`, test.actual], "\n")),
			test.frames?.length && listOf("ol", { class: "frames" }, test.frames)))));
	}

	/** Update the button that interrupts the evaluation, and the field for its input. */
	updateButtons() {
		const { row } = this, made = [];
		if (isLive(row)) {
			made.push(el("button", { class: "stop", onclick: (event) => this.interrupt(event.currentTarget) }, row.status === "queued" ? "Remove from the queue" : "Interrupt"));
		}
		if (row.status === "needs-input") {
			if (this.form) { this.buttons.firstChild && this.buttons.contains(this.form) || this.buttons.append(this.form); return; }
			const field = el("input", { name: "text", "aria-label": "Input for the evaluation", placeholder: "A line of input", autocomplete: "off", spellcheck: false });
			this.form = el("form", { class: "answer", onsubmit: (event) => { event.preventDefault(); this.sendInput(field); } }, field, el("button", { type: "submit" }, "Send"));
			made.push(this.form);
		} else this.form = null;
		const status = this.buttons.querySelector(".status");
		this.buttons.replaceChildren(...made, ...(status ? [status] : []));
	}

	showStatus(text) {
		this.buttons.querySelector(".status")?.remove();
		this.buttons.append(el("p", { class: "status", role: "status" }, plain(text)));
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

	async sendInput(field) {
		const text = field.value;
		field.value = "";
		try {
			const answer = await tool("send_input", { evaluationId: this.row.id, text: `${text}\n` });
			this.showStatus(answer.ok || answer.status ? `Sent: ${text}` : join([answer.message, answer.hint], "; "));
			await this.out?.readMore();
		} catch (error) {
			field.value ||= text;
			this.showStatus(error.message);
		}
	}
}

const failure = (error) => el("div", {}, el("p", { class: "error" }, plain(join([error.class, error.message], ": "))),
	error.trace?.length && listOf("ol", { class: "frames" }, error.trace),
	error.data && pre(error.data), error.locals && el("code", {}, plain(error.locals)));

/** One output stream of an evaluation. Long output is first read near its end. */
class Output {
	constructor(id, part) {
		Object.assign(this, { id, part, from: 0, total: 0, first: 0 });
		this.text = pre("", { class: part });
		this.earlierButton = el("button", { class: "small", hidden: true, onclick: () => this.readEarlier() });
		this.element = el("div", {}, this.earlierButton, this.text);
	}

	read(from, length) {
		return tool("get_evaluation", { evaluationId: this.id, part: this.part, from, length });
	}

	/** Append new output, or only the end of a lot of new output. Return whether there is any output. */
	async readMore() {
		let answer = await this.read(this.from, CHUNK_CHARACTERS);
		if (answer.text === undefined) return this.total > 0;
		this.total = answer.totalCharacters;
		if (this.total - this.from > CHUNK_CHARACTERS) {
			this.first = this.total - CHUNK_CHARACTERS / 2;
			this.text.textContent = "";
			answer = await this.read(this.first, CHUNK_CHARACTERS);
		}
		const atEnd = this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 8;
		this.from = answer.next ?? answer.totalCharacters ?? this.from;
		this.text.append(plain(answer.text ?? ""));
		if (atEnd) this.text.scrollTop = this.text.scrollHeight;
		this.updateEarlierButton();
		return this.total > 0;
	}

	updateEarlierButton() {
		this.earlierButton.hidden = this.first <= 0;
		this.earlierButton.textContent = `Show earlier output (${formatSize(this.first)})`;
	}

	async readEarlier() {
		const from = Math.max(0, this.first - CHUNK_CHARACTERS);
		const answer = await this.read(from, this.first - from);
		this.text.prepend(plain(answer.text ?? ""));
		this.first = answer.from > from ? 0 : from;
		this.updateEarlierButton();
	}
}
