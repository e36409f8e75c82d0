;; Facts of the JVM that only Clojure tells: its folder, its versions, the answer to $seam.

{:root (System/getProperty "user.dir")
 :java (System/getProperty "java.specification.version")
 :babashka (System/getProperty "babashka.version") :attach (System/getProperty "jdk.attach.allowAttachSelf")
 :tools-nrepl (some? (find-ns 'clojure.tools.nrepl)) :seam $seam}
