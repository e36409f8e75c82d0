// A client of the TypeScript SDK, version 1, that listens to log messages and evaluates as a task.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CallToolResultSchema, ElicitRequestSchema, LoggingMessageNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const [command, ...args] = process.argv.slice(2);
const capabilities = { tasks: {}, elicitation: { form: {} } };
const client = new Client({ name: "typescript-v1", version: "1" }, { capabilities });
const said = [];
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => { said.push(params.data); });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
  return { action: "accept", content: { text: params.message.includes("name?") ? "Ada" : "36" } };
});
await client.connect(new StdioClientTransport({ command, args }));
await client.setLoggingLevel("info");
const { tools } = await client.listTools();
const seen = [];
let answer;
const call = { name: "evaluate_code", arguments: { code: "(input('name? '), input('age? '))" } };
for await (const message of client.experimental.tasks.callToolStream(call, CallToolResultSchema)) {
  if (message.type === "taskCreated" || message.type === "taskStatus") seen.push(message.task.status);
  if (message.type === "error") throw message.error;
  if (message.type === "result") answer = message.result.structuredContent.result;
}
const listed = (await client.experimental.tasks.listTasks()).tasks.map((task) => task.status);
await client.callTool({ name: "restart_repl", arguments: {} });
console.log(JSON.stringify({
  able: tools.filter((tool) => tool.execution).map((tool) => tool.name),
  begun: seen[0], asked: seen.includes("input_required"), answer, listed,
  restart: said.some((data) => data.includes("restarting REPL py")) }));
await client.close();
