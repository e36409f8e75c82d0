// The rows of all that happened, put together from updates.
const LIVE = new Set(["queued", "running", "needs-input"]);
const BROKEN = new Set(["failed", "lost", "interrupted"]);
const MOST = 20000;
const OUTPUT = 1400;
const HUES = 8;

export const isBroken = (row) => BROKEN.has(row.status) || Boolean(row.error) || row.red > 0;
export const isLive = (row) => LIVE.has(row.status);

export class Feed {
	rows = [];
	byId = new Map();
	whos = new Map();
	ahead = 0; // by how much the server's clock is ahead of this one
	dropped = 0;
	life = 0;
	workspace = "";

	/** Another server: its rows come after all others. What ran in the one before is over. */
	begin() {
		this.life += 1;
		for (const row of this.rows) if (isLive(row)) Object.assign(row, { status: "lost", error: "its server ended", version: row.version + 1 });
	}

	/** Takes updates in; the rows that changed. */
	take({ rows, now }) {
		this.ahead = now - Date.now();
		const changed = [];
		let inOrder = true;
		for (const update of rows) {
			const id = `${this.life}/${update.id}`;
			let row = this.byId.get(id);
			if (!row) {
				row = { key: id, life: this.life, output: "", pictures: 0, ...update, said: undefined };
				this.byId.set(id, row);
				const last = this.rows.at(-1);
				inOrder &&= !last || last.life < row.life || (row.line ?? Infinity) >= (last.line ?? Infinity);
				this.rows.push(row);
				if (row.who && row.kind !== "app" && !this.whos.has(row.who)) this.whos.set(row.who, this.whos.size % HUES);
			} else {
				const { line, at, pictures } = row;
				Object.assign(row, update, { said: undefined, pictures: pictures + (update.pictures ?? 0) });
				row.at = at ?? row.at;
				if (line !== undefined) row.line = Math.min(line, row.line ?? line);
			}
			if (update.said) {
				row.output = (row.output + update.said).slice(-OUTPUT);
				row.hasPrinted = true;
			}
			if (row.file?.startsWith(this.workspace)) row.file = row.file.slice(this.workspace.length);
			row.version = (row.version ?? 0) + 1;
			changed.push(row);
		}
		if (!inOrder) this.rows.sort((a, b) => a.life - b.life || (a.line ?? Infinity) - (b.line ?? Infinity));
		const over = this.rows.length - MOST;
		if (over > 0) {
			this.dropped += over;
			for (const gone of this.rows.splice(0, over)) this.byId.delete(gone.key);
		}
		return changed;
	}
}

/** Whether a row has a text, in small letters, anywhere. */
export const has = (row, wanted) =>
	[row.text, row.result, row.error, row.who, row.where, row.output, row.file, row.goal, row.names]
		.some((text) => text && String(text).toLowerCase().includes(wanted));
