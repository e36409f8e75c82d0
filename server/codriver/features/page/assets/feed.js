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
	workspace = "";

	/** Takes updates in; the rows that changed. `older`: they are from before all others, as the log is read backwards. */
	take({ rows, now, older }) {
		this.ahead = now - Date.now();
		const changed = [];
		let inOrder = true;
		for (const update of rows) {
			let row = this.byId.get(update.id);
			const pictures = (row?.pictures ?? 0) + (update.pictures ?? 0);
			if (!row) {
				row = { key: update.id, output: "", ...update };
				this.byId.set(update.id, row);
				const last = this.rows.at(-1);
				inOrder &&= !last || (row.line ?? Infinity) >= (last.line ?? Infinity);
				this.rows.push(row);
				if (row.who && row.kind !== "app" && !this.whos.has(row.who)) this.whos.set(row.who, this.whos.size % HUES);
			} else {
				const line = Math.min(row.line ?? Infinity, update.line ?? Infinity);
				inOrder &&= line === (row.line ?? Infinity);
				Object.assign(row, older ? { ...update, ...row, at: update.at ?? row.at } : { ...update, at: row.at ?? update.at });
				if (line < Infinity) row.line = line;
			}
			row.pictures = pictures;
			if (update.said) {
				row.output = (older ? update.said + row.output : row.output + update.said).slice(-OUTPUT);
				row.hasPrinted = true;
			}
			delete row.said;
			if (row.file?.startsWith(this.workspace)) row.file = row.file.slice(this.workspace.length);
			row.version = (row.version ?? 0) + 1;
			changed.push(row);
		}
		if (!inOrder) this.rows.sort((a, b) => (a.line ?? Infinity) - (b.line ?? Infinity));
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
