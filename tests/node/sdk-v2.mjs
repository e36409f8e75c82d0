// A client of the TypeScript SDK, version 2, behind a relay that is started with the arguments given.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript-v2", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const answer = await client.callTool({ name: "evaluate_code", arguments: { code: "6 * 7" } });
const refused = await client.callTool({ name: "evaluate_code", arguments: { code: "1 / 0" } });
console.log(JSON.stringify({
  first: tools[0].name, result: answer.structuredContent.result, isError: refused.isError }));
await client.close();
