// A list of which only what can be seen is in the document: elements of rows that leave are used again.
export class List {
	rows = [];
	tops = new Float64Array(1);
	shown = new Map();
	pool = [];
	follows = true;
	due = false;

	/** `fill(element, row)` makes an element show a row; `heightOf(row)` is its height when it is not measured. */
	constructor(scroll, holder, { make, fill, heightOf }) {
		Object.assign(this, { scroll, holder, make, fill, heightOf });
		scroll.addEventListener("scroll", () => {
			// The list may have got less room since it scrolled by itself: only who goes up leaves its end.
			this.follows = this.isAtEnd || (this.follows && scroll.scrollTop >= this.top);
			this.top = scroll.scrollTop;
			this.draw();
		}, { passive: true });
		new ResizeObserver(() => this.later()).observe(scroll);
	}

	get height() { return this.tops[this.rows.length]; }
	get isAtEnd() { return this.scroll.scrollTop + this.scroll.clientHeight >= this.height - 24; }

	set(rows) {
		this.rows = rows;
		this.later();
	}

	later() {
		if (this.due) return;
		this.due = true;
		requestAnimationFrame(() => { this.due = false; this.measure(); this.draw(); });
	}

	measure() {
		const { rows, scroll } = this, anchor = this.follows ? null : this.anchor();
		if (this.tops.length < rows.length + 1) this.tops = new Float64Array(Math.max(256, rows.length * 2));
		let top = 0;
		for (let at = 0; at < rows.length; at++) {
			this.tops[at] = top;
			rows[at].place = at;
			top += this.heightOf(rows[at]);
		}
		this.tops[rows.length] = top;
		this.holder.style.height = `${top}px`;
		if (this.follows) {
			scroll.scrollTop = top;
			this.top = scroll.scrollTop;
		} else if (anchor && rows[anchor.row.place] === anchor.row) scroll.scrollTop = this.tops[anchor.row.place] + anchor.by;
	}

	/** The first row that can be seen, and how far it is above the edge, so that what is read stays where it is. */
	anchor() {
		const row = [...this.shown.keys()].filter((one) => this.tops[one.place + 1] > this.scroll.scrollTop)
			.sort((a, b) => a.place - b.place)[0];
		return row && { row, by: this.scroll.scrollTop - this.tops[row.place] };
	}

	at(y) {
		let low = 0, high = this.rows.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.tops[middle + 1] <= y) low = middle + 1; else high = middle;
		}
		return low;
	}

	draw() {
		const { scroll, rows, shown } = this, over = 200;
		const first = this.at(scroll.scrollTop - over), end = Math.min(rows.length, this.at(scroll.scrollTop + scroll.clientHeight + over) + 1);
		const wanted = new Set(rows.slice(first, end));
		for (const [row, element] of shown) {
			if (wanted.has(row) || element.contains(document.activeElement)) continue;
			shown.delete(row);
			element.remove();
			this.pool.push(element);
		}
		let before = null;
		for (const row of wanted) {
			let element = shown.get(row);
			if (!element) {
				element = this.pool.pop() ?? this.make();
				element.version = undefined;
				shown.set(row, element);
			}
			if (element.row !== row || element.version !== row.version) {
				element.row = row;
				element.version = row.version;
				this.fill(element, row);
			}
			element.style.transform = `translateY(${this.tops[row.place]}px)`;
			element.ariaPosInSet = row.place + 1;
			element.ariaSetSize = rows.length;
			// In the order of the list, for who reads it one by one.
			if (element.previousElementSibling !== before || element.parentNode !== this.holder) {
				if (before) before.after(element); else this.holder.prepend(element);
			}
			before = element;
		}
	}

	toEnd() {
		this.follows = true;
		this.later();
	}

	/** A row got lower: the list follows its end again where that is what is seen. */
	settle() {
		this.measure();
		this.follows = this.isAtEnd;
	}

	/** Scrolls so that a row can be seen. */
	show(row, { middle = false } = {}) {
		this.measure();
		const top = this.tops[row.place], end = this.tops[row.place + 1], { scroll } = this;
		if (middle || top < scroll.scrollTop || end > scroll.scrollTop + scroll.clientHeight) {
			this.follows = false;
			const low = middle ? top - 60 : top < scroll.scrollTop ? top : Math.min(top, end - scroll.clientHeight);
			scroll.scrollTop = low;
		}
		this.follows = this.isAtEnd;
		this.draw();
	}
}
