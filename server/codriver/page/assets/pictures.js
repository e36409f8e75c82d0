// Pictures of evaluations: fetched once, shown in place, large, downloaded.
import { call } from "./transport.js";
import { el } from "./text.js";

const MOST = 80;
const known = new Map(); // by evaluation and number: the promise of an address, the newest last

async function fetched(id, number) {
	const { images } = await call("get_evaluation", { evaluationId: id, part: `image-${number}`, maxImages: 1 });
	if (!images.length) throw new Error("gone");
	const { data, mimeType } = images[0];
	const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0));
	return { url: URL.createObjectURL(new Blob([bytes], { type: mimeType })), mimeType, bytes };
}

export function address(id, number) {
	const key = `${id} ${number}`;
	let found = known.get(key);
	if (!found) {
		known.set(key, (found = fetched(id, number)));
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

/** A picture of a row as a button that shows it large. */
export function pictureOf(row, number) {
	const words = named(row, number);
	const image = el("img", { alt: words, decoding: "async" });
	const button = el("button", { class: "picture", "aria-label": `${words}: show it large`, onclick: () => enlarge(row, number) }, image);
	address(row.id, number).then(({ url }) => { image.src = url; },
		() => button.replaceChildren(el("span", { class: "quiet" }, "no longer kept")));
	return button;
}

async function enlarge(row, number) {
	const dialog = document.getElementById("large");
	try {
		const { url, mimeType, bytes } = await address(row.id, number);
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
