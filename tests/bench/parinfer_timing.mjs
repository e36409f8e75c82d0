// Answers each line of stdin, a JSON array [text, runs], with the median milliseconds that the indent mode of parinfer.js takes.
import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'
import { createInterface } from 'node:readline'

const parinfer = createRequire(new URL('../node/', import.meta.url))('parinfer')

for await (const line of createInterface({ input: process.stdin })) {
  const [text, runs] = JSON.parse(line)
  const work = parinfer.indentMode
  for (let run = 0; run < 5; run++) work(text)
  const taken = []
  for (let run = 0; run < runs; run++) {
    const begin = performance.now()
    work(text)
    taken.push(performance.now() - begin)
  }
  taken.sort((one, other) => one - other)
  process.stdout.write(JSON.stringify(taken[Math.floor(runs / 2)]) + '\n')
}
