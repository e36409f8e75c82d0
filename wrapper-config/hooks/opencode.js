// Codriver's hooks for opencode, written by `codriver init --hooks`. Errors are ignored, so they never block the agent.
import { spawn } from "node:child_process"

const HOOK = {{words}}
const EDITS = ["edit", "write", "multiedit", "apply_patch", "patch"]

// Run codriver-hook for an event, and return its parsed output. Returns {} if it fails or times out.
function runHook(event, input, directory) {
  return new Promise((resolve) => {
    const parseOutput = () => {
      try {
        resolve(JSON.parse(output) ?? {})
      } catch {
        resolve({})
      }
    }
    let output = ""
    const child = spawn(HOOK[0], [...HOOK.slice(1), "opencode", event], {
      cwd: directory,
      stdio: ["pipe", "pipe", "ignore"],
      timeout: event === "stopping" ? 30000 : 5000,
    })
    child.on("error", () => resolve({}))
    child.stdout.on("data", (data) => (output += data))
    child.on("close", parseOutput)
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ ...input, cwd: directory }))
  })
}

export const Codriver = async ({ client, directory }) => {
  let digest
  let isAgain = false
  return {
    "experimental.chat.system.transform": async (_input, output) => {
      digest ??= runHook("started", {}, directory)
      const { context } = await digest
      if (context) output.system.push(context)
    },
    "experimental.session.compacting": async (_input, output) => {
      const { context } = await runHook("started", {}, directory)
      if (context) output.context.push(context)
    },
    "tool.execute.before": async (input, output) => {
      if (input.tool !== "write") return
      const { block } = await runHook("writing", { tool_input: output.args }, directory)
      if (block) throw new Error(block)
    },
    "tool.execute.after": async (input, output) => {
      if (!EDITS.includes(input.tool)) return
      const { context } = await runHook("edited", { tool_input: input.args }, directory)
      if (context) output.output += `\n\n${context}`
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const { block } = await runHook("stopping", { stop_hook_active: isAgain }, directory)
      isAgain = Boolean(block)
      if (!block) return
      const body = { parts: [{ type: "text", text: block }] }
      await client.session.prompt({ path: { id: event.properties.sessionID }, body }).catch(() => {})
    },
  }
}
