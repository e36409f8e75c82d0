// Codriver's hooks for opencode, written by `codriver init --hooks`. Whatever goes wrong here holds up nobody.
import { spawn } from "node:child_process"

const HOOK = {{words}}
const EDITS = ["edit", "write", "multiedit", "apply_patch", "patch"]

function ask(event, input, directory) {
  return new Promise((resolve) => {
    const done = (text) => {
      try {
        resolve(JSON.parse(text) ?? {})
      } catch {
        resolve({})
      }
    }
    let said = ""
    const child = spawn(HOOK[0], [...HOOK.slice(1), "opencode", event], {
      cwd: directory,
      stdio: ["pipe", "pipe", "ignore"],
      timeout: event === "stopping" ? 30000 : 5000,
    })
    child.on("error", () => resolve({}))
    child.stdout.on("data", (data) => (said += data))
    child.on("close", () => done(said))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify({ ...input, cwd: directory }))
  })
}

export const Codriver = async ({ client, directory }) => {
  let digest
  let isAgain = false
  return {
    "experimental.chat.system.transform": async (_input, output) => {
      digest ??= ask("started", {}, directory)
      const { context } = await digest
      if (context) output.system.push(context)
    },
    "experimental.session.compacting": async (_input, output) => {
      const { context } = await ask("started", {}, directory)
      if (context) output.context.push(context)
    },
    "tool.execute.before": async (input, output) => {
      if (input.tool !== "write") return
      const { block } = await ask("writing", { tool_input: output.args }, directory)
      if (block) throw new Error(block)
    },
    "tool.execute.after": async (input, output) => {
      if (!EDITS.includes(input.tool)) return
      const { context } = await ask("edited", { tool_input: input.args }, directory)
      if (context) output.output += `\n\n${context}`
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle") return
      const { block } = await ask("stopping", { stop_hook_active: isAgain }, directory)
      isAgain = Boolean(block)
      if (!block) return
      const body = { parts: [{ type: "text", text: block }] }
      await client.session.prompt({ path: { id: event.properties.sessionID }, body }).catch(() => {})
    },
  }
}
