// Pictures of evaluations: fetched once, shown in place, large on a click, to be downloaded.
import { call } from "./transport.js";
import { el } from "./text.js";

const MOST = 80;
const known = new Map(); // by evaluation and number: the promise of an address, the newest last

async function fetched(row, number) {
	// The tool counts those of the last value first.
	const part = `image-${((number + row.drawn - 1) % row.pictures) + 1}`;
	const { images } = await call("get_evaluation", { evaluationId: row.id, part, maxImages: 1 });
	if (!images.length) throw new Error("gone");
	const { data, mimeType } = images[0];
	const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
	return { url: URL.createObjectURL(new Blob([bytes], { type: mimeType })), mimeType, bytes };
}

/** The address of a picture of a row, by its number from 1 on, in the order in which they came. */
function address(row, number) {
	const key = `${row.id} ${number}`;
	let found = known.get(key);
	if (!found) {
		known.set(key, (found = fetched(row, number)));
		found.catch(() => known.delete(key));
		if (known.size > MOST) {
			const [oldest, promise] = known.entries().next().value;
			known.delete(oldest);
			promise.then(({ url }) => URL.revokeObjectURL(url), () => 0);
		}
	}
	return found;
}

const named = (row, number) => `Picture ${number} of ${row.who ?? "an evaluation"}`;

export const numbersOf = (row) => Array.from({ length: row.pictures }, (_, at) => at + 1);

/** The pictures of a row, so many at most. */
export const picturesOf = (row, most) => numbersOf(row).slice(0, most).map((number) => pictureOf(row, number));

/** A picture of a row, as soon as it is there; `gone()` where it is no longer kept. */
export function imageOf(row, number, gone) {
	const image = el("img", { alt: named(row, number), decoding: "async" });
	address(row, number).then(({ url }) => { image.src = url; }, gone);
	return image;
}

/** A picture of a row as a button that shows it large. */
function pictureOf(row, number) {
	const image = imageOf(row, number, () => button.replaceChildren(el("span", { class: "quiet" }, "no longer kept")));
	const button = el("button", { class: "picture", "aria-label": `${image.alt}: show it large`, onclick: () => enlarge(row, number) }, image);
	return button;
}

async function enlarge(row, number) {
	const dialog = document.getElementById("large");
	try {
		const { url, mimeType, bytes } = await address(row, number);
		const name = `${row.id}-${number}.${/\/(\w+)/.exec(mimeType)[1]}`;
		const save = el("button", { onclick: () => {
			// As bytes of no kind: a picture that holds a script is never opened as a document of this page.
			const saved = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
			el("a", { href: saved, download: name }).click();
			setTimeout(() => URL.revokeObjectURL(saved), 1000);
		} }, "Download");
		dialog.replaceChildren(el("img", { src: url, alt: named(row, number) }),
			el("form", { method: "dialog" }, el("span", { class: "quiet" }, name), save, el("button", { type: "submit" }, "Close")));
		dialog.showModal();
	} catch { /* the place of the picture says that it is gone */ }
}
