// DataScript's side of datalog_bench.py: one JSON line in with the work, one JSON line out with times and answers.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../node/package.json", import.meta.url));
const datascript = require("datascript");

function milliseconds(work) {
  const start = process.hrtime.bigint();
  const result = work();
  return [Number(process.hrtime.bigint() - start) / 1e6, result];
}

for await (const line of createInterface({ input: process.stdin })) {
  const { entities, queries, rounds, inserts } = JSON.parse(line);
  const indexed = Object.fromEntries(
    [":output/line", ":output/category", ":output/who", ":output/ns", ":output/repl-session-key", ":output/evaluation"]
      .map((attribute) => [attribute, { ":db/index": true }]),
  );
  const stored = (entity) => ({ ":db/id": entity[":output/line"], ...entity });
  let db = datascript.db_with(datascript.empty_db(indexed), entities.map(stored));
  const answers = {};
  for (const [name, { text, inputs }] of Object.entries(queries)) {
    const times = [];
    let result;
    for (let round = 0; round < rounds; round++) {
      let time;
      [time, result] = milliseconds(() => datascript.q(text, db, ...inputs));
      times.push(time);
    }
    answers[name] = { times, result };
  }
  const times = [];
  const connection = datascript.conn_from_db(db);
  let first = entities[0][":output/line"];
  for (const entity of inserts) {
    const [time] = milliseconds(() =>
      datascript.transact(connection, [stored(entity), [":db.fn/retractEntity", first]]),
    );
    first += 1;
    times.push(time);
  }
  console.log(JSON.stringify({ answers, inserts: { times } }));
}
