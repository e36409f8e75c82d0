// Answers each line of stdin, a JSON string, with a line of JSON: what the indent mode of parinfer.js gives.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const parinfer = createRequire(new URL('../node/', import.meta.url))('parinfer')

for await (const line of createInterface({ input: process.stdin })) {
  const text = JSON.parse(line)
  let answer
  try {
    const result = parinfer.indentMode(text)
    answer = { text: result.text, error: result.error ?? null }
  } catch (thrown) {
    answer = { thrown: String(thrown) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
