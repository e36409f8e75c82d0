;; Facts about the JVM that only Clojure can report: its directory and versions.

{:root (System/getProperty "user.dir")
 :java (System/getProperty "java.specification.version")
 :babashka (System/getProperty "babashka.version") :attach (System/getProperty "jdk.attach.allowAttachSelf")
 :tools-nrepl (some? (find-ns 'clojure.tools.nrepl))}
