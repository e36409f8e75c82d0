// A list that only keeps visible rows in the document. Elements of rows that are scrolled out are reused.
export class List {
	rows = [];
	tops = new Float64Array(1);
	elements = new Map();
	pool = [];
	follows = true;
	isDrawScheduled = false;

	/** `make()` creates an element, `fill(element, row)` displays a row in it, and `heightOf(row)` returns the row's height. */
	constructor(scroll, holder, { make, fill, heightOf }) {
		Object.assign(this, { scroll, holder, make, fill, heightOf });
		scroll.addEventListener("scroll", () => {
			// The list may have shrunk since it scrolled to its end. It only stops following the end if the user scrolls up.
			this.follows = this.isAtEnd || (this.follows && scroll.scrollTop >= this.top);
			this.top = scroll.scrollTop;
			this.draw();
		}, { passive: true });
		new ResizeObserver(() => this.scheduleDraw()).observe(scroll);
	}

	get height() { return this.tops[this.rows.length]; }
	get isAtEnd() { return this.scroll.scrollTop + this.scroll.clientHeight >= this.height - 24; }

	set(rows) {
		this.rows = rows;
		this.scheduleDraw();
	}

	scheduleDraw() {
		if (this.isDrawScheduled) return;
		this.isDrawScheduled = true;
		requestAnimationFrame(() => { this.isDrawScheduled = false; this.measure(); this.draw(); });
	}

	measure() {
		const { rows, scroll } = this, anchor = this.follows ? null : this.anchor();
		if (this.tops.length < rows.length + 1) this.tops = new Float64Array(Math.max(256, rows.length * 2));
		let top = 0;
		for (let index = 0; index < rows.length; index++) {
			this.tops[index] = top;
			rows[index].index = index;
			top += this.heightOf(rows[index]);
		}
		this.tops[rows.length] = top;
		this.holder.style.height = `${top}px`;
		if (this.follows) {
			scroll.scrollTop = top;
			this.top = scroll.scrollTop;
		} else if (anchor && rows[anchor.row.index] === anchor.row) scroll.scrollTop = this.tops[anchor.row.index] + anchor.by;
	}

	/** Return the first visible row and its distance above the edge, so the rows being read do not move. */
	anchor() {
		const row = [...this.elements.keys()].filter((row) => this.tops[row.index + 1] > this.scroll.scrollTop)
			.sort((a, b) => a.index - b.index)[0];
		return row && { row, by: this.scroll.scrollTop - this.tops[row.index] };
	}

	/** Return the index of the row at a vertical position. */
	indexAt(y) {
		let low = 0, high = this.rows.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.tops[middle + 1] <= y) low = middle + 1; else high = middle;
		}
		return low;
	}

	draw() {
		const { scroll, rows, elements } = this, margin = 200;
		const first = this.indexAt(scroll.scrollTop - margin), end = Math.min(rows.length, this.indexAt(scroll.scrollTop + scroll.clientHeight + margin) + 1);
		const visible = new Set(rows.slice(first, end));
		for (const [row, element] of elements) {
			if (visible.has(row) || element.contains(document.activeElement)) continue;
			elements.delete(row);
			element.remove();
			this.pool.push(element);
		}
		let before = null;
		for (const row of visible) {
			let element = elements.get(row);
			if (!element) {
				element = this.pool.pop() ?? this.make();
				element.version = undefined;
				elements.set(row, element);
			}
			if (element.row !== row || element.version !== row.version) {
				element.row = row;
				element.version = row.version;
				this.fill(element, row);
			}
			element.style.transform = `translateY(${this.tops[row.index]}px)`;
			element.ariaPosInSet = row.index + 1;
			element.ariaSetSize = rows.length;
			// Elements are in the order of the list, for screen readers.
			if (element.previousElementSibling !== before || element.parentNode !== this.holder) {
				if (before) before.after(element); else this.holder.prepend(element);
			}
			before = element;
		}
	}

	scrollToEnd() {
		this.follows = true;
		this.scheduleDraw();
	}

	/** Follow the end of the list again if it is visible, after a row has become shorter. */
	followIfAtEnd() {
		this.measure();
		this.follows = this.isAtEnd;
	}

	/** Scroll until a row is visible. */
	reveal(row, { middle = false } = {}) {
		this.measure();
		const top = this.tops[row.index], end = this.tops[row.index + 1], { scroll } = this;
		if (middle || top < scroll.scrollTop || end > scroll.scrollTop + scroll.clientHeight) {
			this.follows = false;
			const low = middle ? top - 60 : top < scroll.scrollTop ? top : Math.min(top, end - scroll.clientHeight);
			scroll.scrollTop = low;
		}
		this.follows = this.isAtEnd;
		this.draw();
	}
}
