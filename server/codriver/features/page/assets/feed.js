// The rows of activity, merged from updates.
const LIVE_STATUSES = new Set(["queued", "running", "needs-input"]);
const FAILED_STATUSES = new Set(["failed", "lost", "interrupted"]);
const MAX_ROWS = 20000;
const MAX_OUTPUT_CHARACTERS = 1400;
const HUE_COUNT = 8;

export const hasFailed = (row) => FAILED_STATUSES.has(row.status) || Boolean(row.error) || row.failures > 0;
export const isLive = (row) => LIVE_STATUSES.has(row.status);

export class Feed {
	rows = [];
	byId = new Map();
	whos = new Map();
	clockLead = 0; // milliseconds by which the server's clock is ahead
	dropped = 0;
	workspace = "";

	/** Merge an update, and return the changed rows. `older`: the update precedes all rows, because the log is read backwards. */
	merge({ rows, now, older }) {
		this.clockLead = now - Date.now();
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
				if (row.who && row.kind !== "app" && !this.whos.has(row.who)) this.whos.set(row.who, this.whos.size % HUE_COUNT);
			} else {
				const line = Math.min(row.line ?? Infinity, update.line ?? Infinity);
				inOrder &&= line === (row.line ?? Infinity);
				Object.assign(row, older ? { ...update, ...row, at: update.at ?? row.at } : { ...update, at: row.at ?? update.at });
				if (line < Infinity) row.line = line;
			}
			row.pictures = pictures;
			if (update.newOutput) {
				row.output = (older ? update.newOutput + row.output : row.output + update.newOutput).slice(-MAX_OUTPUT_CHARACTERS);
				row.hasPrinted = true;
			}
			delete row.newOutput;
			if (row.file?.startsWith(this.workspace)) row.file = row.file.slice(this.workspace.length);
			row.version = (row.version ?? 0) + 1;
			changed.push(row);
		}
		if (!inOrder) this.rows.sort((a, b) => (a.line ?? Infinity) - (b.line ?? Infinity));
		const excess = this.rows.length - MAX_ROWS;
		if (excess > 0) {
			this.dropped += excess;
			for (const row of this.rows.splice(0, excess)) this.byId.delete(row.key);
		}
		return changed;
	}
}

/** Return whether any text of a row contains a lower-case text. */
export const matches = (row, part) =>
	[row.text, row.result, row.error, row.who, row.where, row.output, row.file, row.goal, row.names]
		.some((text) => text && String(text).toLowerCase().includes(part));
