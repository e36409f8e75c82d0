// The peer of the relay's benchmark: the least that Node needs to pipe stdin and stdout to a TCP port.
import net from "node:net";

const socket = net.connect(Number(process.argv[2]), "127.0.0.1");
socket.setNoDelay(true);
process.stdin.pipe(socket);
socket.pipe(process.stdout);
