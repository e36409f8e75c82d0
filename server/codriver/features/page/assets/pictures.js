// Pictures of evaluations. Each is fetched once. Clicking it enlarges it, and it can be downloaded.
import { call } from "./transport.js";
import { el } from "./text.js";

const MAX_CACHED = 80;
const cache = new Map(); // promises of pictures, by evaluation and number, oldest first

async function fetchPicture(row, number) {
	// The tool numbers the pictures of the last value first.
	const part = `image-${((number + row.drawn - 1) % row.pictures) + 1}`;
	const { images } = await call("get_evaluation", { evaluationId: row.id, part, maxImages: 1 });
	if (!images.length) throw new Error("gone");
	const { data, mimeType } = images[0];
	const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
	return { url: URL.createObjectURL(new Blob([bytes], { type: mimeType })), mimeType, bytes };
}

/** Return a promise of one of a row's pictures. They are numbered from 1, in the order in which they were created. */
function cachedPicture(row, number) {
	const key = `${row.id} ${number}`;
	let picture = cache.get(key);
	if (!picture) {
		cache.set(key, (picture = fetchPicture(row, number)));
		picture.catch(() => cache.delete(key));
		if (cache.size > MAX_CACHED) {
			const [oldest, promise] = cache.entries().next().value;
			cache.delete(oldest);
			promise.then(({ url }) => URL.revokeObjectURL(url), () => 0);
		}
	}
	return picture;
}

const altText = (row, number) => `Picture ${number} of ${row.who ?? "an evaluation"}`;

export const numbersOf = (row) => Array.from({ length: row.pictures }, (_, at) => at + 1);

/** Return elements for at most `most` pictures of a row. */
export const picturesOf = (row, most) => numbersOf(row).slice(0, most).map((number) => pictureOf(row, number));

/** Return an image that is loaded in the background. Calls `onMissing()` if the picture is no longer stored. */
export function imageOf(row, number, onMissing) {
	const image = el("img", { alt: altText(row, number), decoding: "async" });
	cachedPicture(row, number).then(({ url }) => { image.src = url; }, onMissing);
	return image;
}

/** Return a button with a picture, which enlarges it. */
function pictureOf(row, number) {
	const image = imageOf(row, number, () => button.replaceChildren(el("span", { class: "quiet" }, "no longer stored")));
	const button = el("button", { class: "picture", "aria-label": `Enlarge: ${image.alt}`, onclick: () => enlarge(row, number) }, image);
	return button;
}

async function enlarge(row, number) {
	const dialog = document.getElementById("large");
	try {
		const { url, mimeType, bytes } = await cachedPicture(row, number);
		const name = `${row.id}-${number}.${/\/(\w+)/.exec(mimeType)[1]}`;
		const save = el("button", { onclick: () => {
			// A generic type, so that a picture containing a script is never opened as a document of this page.
			const saved = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
			el("a", { href: saved, download: name }).click();
			setTimeout(() => URL.revokeObjectURL(saved), 1000);
		} }, "Download");
		dialog.replaceChildren(el("img", { src: url, alt: altText(row, number) }),
			el("form", { method: "dialog" }, el("span", { class: "quiet" }, name), save, el("button", { type: "submit" }, "Close")));
		dialog.showModal();
	} catch { /* the row already says that the picture is missing */ }
}
