// The questions of LOG.md, with their queries and inputs: a test compares them.
export const EXAMPLES = [
  ["What went wrong?", "[:find ?line ?text :where [?e :output/category \"evaluationErrorOutput\"] [?e :output/line ?line] [?e :output/text ?text]]", ""],
  ["Who evaluated how much?", "[:find ?who (count ?e) :where [?e :output/category \"evaluatedCode\"] [?e :output/who ?who]]", ""],
  ["What did others do since line 3?", "[:find (pull ?e [*]) :in $ ?since ?me :where [?e :output/line ?line] [(> ?line ?since)] [?e :output/who ?who] [(not= ?who ?me)]]", "[3, \"me\"]"],
  ["What came of which code?", "[:find ?code ?result :where [?a :output/category \"evaluatedCode\"] [?a :output/evaluation ?id] [?a :output/text ?code] [?b :output/evaluation ?id] [?b :output/category \"evaluationResults\"] [?b :output/text ?result]]", ""],
  ["Where was a time-out mentioned?", "[:find ?line ?text :where [?e :output/text ?text] [(re-find #\"(?i)time-?out\" ?text)] [?e :output/line ?line]]", ""],
  ["How was it done last week?", "[:find [?code ...] :in $ $history ?part :where [$history ?e :output/text ?code] [(clojure.string/includes? ?code ?part)]]", "[\"price\"]"],
  ["Which code of the kernel uses a value that Clojure gave?", "[:find ?value ?code :in $ ?clj ?py :where [?a :output/repl-session-key ?clj] [?a :output/category \"evaluationResults\"] [?a :output/text ?value] [?b :output/repl-session-key ?py] [?b :output/category \"evaluatedCode\"] [?b :output/text ?code] [(clojure.string/includes? ?code ?value)]]", "[\"clj\", \"sales-ipynb\"]"],
  ["What came of my changes, in the application?", "[:find ?line ?text :in $ $app ?me :where [?e :output/who ?me] [?e :output/evaluation ?id] [?e :output/category \"evaluatedCode\"] [$app ?a :output/evaluation ?id] [$app ?a :output/line ?line] [$app ?a :output/text ?text]]", "[\"me\"]"],
  ["What did the human evaluate in which notebook?", "[:find ?notebook ?line ?code :where [?e :output/notebook ?notebook] [?e :output/line ?line] [?e :output/text ?code]]", ""],
];
