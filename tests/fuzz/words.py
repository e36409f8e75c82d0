"""For each target the words of its language, to draw from and for the fuzzer's dictionary."""

WORDS = {
    "lines": ["\n", "\r\n", "\r", " ", "x" * 49, "ab"],
    "relay_lines": ["\n", "\r\n", "{}", "x"],
    "relay_survey": [
        "{", "}", "[", "]", '"id"', '"method"', '"result"', '"error"', ":", ",", "1", "-1", "1.0", "1e2", '"a"', "null",
        '"\\u0061"', '"\\\\"', "true", " ", '"id":1', '"method":"m"', '"result":{}',
    ],
    "bencode": ["d", "l", "e", "i", "0", "-1", "1:", "2:", "a", "\u00e9", "i5e", "3:abc", "d1:a1:be"],
    "nrepl_message": [
        "d", "l", "e", "i5e", "i-1e", "6:status", "4:done", "2:id", "1:1", "2:ex", "0:", "7:session", "le",
    ],
    "door": ["GET", "POST", "patch", "null", "{", "[", '"', " ", "\r", "\n", " / HTTP/1.1\r\n", "\x16", "SSH-", "/"],
    "edn_reader": [
        "(", ")", "[", "]", "{", "}", "#{", '"', '\\"', "\\a", ":a/b", "a", "?x", "1", "-1.5e3", "1/2", "#_", "^", ";",
        "#inst", "\n", " ", ",", "nil", "\\newline", "\\u0041", '#"a+"',
    ],
    "datalog": [
        "[:find", "]", "[", "(", ")", " ?e", " ?l", " .", " ...", " :where", " :in", " $", " %", " :with", " (rule ?e)",
        " [?e :output/line ?l]", " [?e :output/text ?t]", " [(< ?l 3)]", " [(str ?l ?t) ?u]", " (not", " (or", " 1",
        " (count ?e)", " (pull ?e [*])", ' [(re-find #"(a+)+b" ?t)]', " [(ground [1 2]) [?l ...]]", ' "a"', " _",
        " [(+ ?l ?l) ?m]", " :keys a b", "[:find ?l :where [?e :output/line ?l]",
    ],
    "datalog_answers": [],
    "lisp_reader": [
        "(", ")", "[", "]", "{", "}", '"', "\\", ";", "#_", "#", "^", "'", "`", "~@", "a", "1", " ", "\n", "\r\n", "\t",
        '#"', "#?@(", "\\(",
    ],
    "parinfer": ["(", ")", "[", "]", "{", "}", '"', "\\", ";", "a", " ", "  ", "\n", "\t", "(defn f [x]\n  ", "\r\n"],
    "edit": [
        "(def a 1)", "(defn f [x]\n  x)", "(comment\n  (f 1)\n  )", "; note\n", "\n", "\n\n", " ", "\x00", "(", ")",
        "#_",
        "^:private ", "a", '"s"', "\r\n",
    ],
    "transit": [
        '["^ ","~:format-version",1,"~:entities",[', "[", "]", ",", '"^0"', '"~:output/line"', "1", '"~u"', '"~#set"',
        '["^ ","~:output/line",1,"~:output/category","evaluatedCode","~:output/text","a","~:output/timestamp",5]',
        '"~t2020"', '"~i9"', '"~zINF"', "null", "{", "}", ":", '"~~a"', '"`"', '"^1"',
        '["^ ","^2",2,"^3","evaluatedCode",',
        '"^4","', '",', '"^4",', '"^5",7', '"~:output/who",', '"~:output/ns",', '"~:output/evaluation",',
        "~", "^", "\\ud800",
        '"evaluationResults"', "-1", "1e3", "true", '"~d1.5"', '"~m5"', '["~#cmap",', '["~#list",', '["~#\'",',
    ],
    "history": [
        "\x00", "\x01", "\x02", "\x03", '{"line":1,"category":"evaluatedCode","text":"a","timestamp":5}', "\n", "1",
        "{",
        "}", '["^ ","~:format-version",1,"~:entities",[]]', '"~:format-version"', "2", "[", "]", ",", "-1",
    ],
    "settings": [
        "maxLength", "host", "nrepl", "repl", "maxDepth", " = ", "1", "-1", '"x"', "[", "]", "\n", "true", "1.5", "{",
        "}", "\x00", "maxLength = 5\n", 'host = "', '"', "nrepl = [", '"clj=localhost:7888", ', '"7888"',
        "watch = true\n",
        'eventLoop = "auto"\n', "repl = [", "'a b'", "\\u0041", "\\", "max_images = 3\n", "clojuredocsUrl = ", "0x1F\n",
        "9" * 50, ".", "=", ",", "# c\n", "2020-01-01", "'''", "inf", "[[a]]\n", "disabledSkills = [", "\x7f", "é",
    ],
    "record": [
        '{"pid":1,"port":2,"host":"h","sessionId":"s","startedAt":"2026-01-01T00:00:00+00:00"', "}", ",", "null", "1",
        '"portNote":', '"version":', "-1", "9" * 30, '"pid":', '"port":', '"x"', "[", "]", "1e400", '"startedAt":',
        '"9999-12-31T23:59:59-23:59"',
    ],
    "client_file": [
        "{", "}", "[", "]", '"mcpServers"', '"a"', ":", ",", "// c\n", "/* c */", "1", "\n", "  ", "null", "\r\n",
        '"codriver-fuzzed"', '"\\ud800"', '"mcpServers":{',
    ],
    "redacted": ["ab", "ba", "c", "abababab", "babababac", "x", "\n", "a"],
    "client_line": [
        "{", "}", '"jsonrpc":"2.0"', '"id":', "1", '"a"', "null", "1.5", ",", '"method":', '"ping"', '"params":', "[",
        "]",
        '"result":', '"error":', '{"code":1,"message":"m"}', "{}", "true", "9" * 30, '"\\ud800"',
    ],
    "arguments": [
        "{", "}", '"code":', '"who":', '"timeoutMs":', '"edits":', '"query":', '"inputs":', "[", "]", ",", ":", "1",
        "-1",
        "1e400", "NaN", '"a"', "null", "true", '"evaluationId":', '"from":', "9" * 30, '"type":', '"replace"', "[[]]",
        '"filePath":',
    ],
}  # fmt: skip
