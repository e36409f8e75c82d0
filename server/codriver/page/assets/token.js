// The first module: the token leaves the address before anything else runs, for the storage that is this port's alone.
const given = location.hash.slice(1);
if (given) {
	sessionStorage.setItem("token", given);
	history.replaceState(null, "", location.pathname);
}

export const token = () => sessionStorage.getItem("token") || "";
