"""Harmful candidates, and a view of the process that must stay the same after them; evaluated in a worker."""

HARM = '''
import atexit, ctypes, fcntl, mmap, multiprocessing, os, random, signal
import sqlite3, subprocess, sys, threading, time, warnings
FOLDER = %r
def path(name): return os.path.join(FOLDER, name)
db = sqlite3.connect(path("a.db")); db.execute("create table t(x)"); db.execute("insert into t values (1)"); db.commit()
db.execute("insert into t values (2)")
written = open(path("w.txt"), "w"); written.write("buffered,")
with open(path("r.txt"), "w") as file: file.write("abcdef" * 5000)
reading = open(path("r.txt")); reading.read(3)
atexit.register(lambda: open(path("atexit-%%d" %% os.getpid()), "w").close())
state = {"items": list(range(1000)), "n": 0}
with open(path("map"), "wb") as file: file.write(bytes(4096))
mapped = open(path("map"), "r+b"); shared = mmap.mmap(mapped.fileno(), 4096)
lock, number = multiprocessing.Lock(), multiprocessing.Value("i", 1)
locked = open(path("lock"), "w"); fcntl.flock(locked, fcntl.LOCK_EX)
import asyncio
loop = asyncio.new_event_loop()
child = subprocess.Popen(["sleep", "600"])

def killed(): state["n"] = 1; os.kill(os.getpid(), 9)
def timed(): time.sleep(60)
def spin():
    while True: pass
def exits(): os._exit(3)
def raises_exit(): sys.exit(4)
def segfault(): ctypes.string_at(0)
def bomb():
    for _ in range(10):
        if os.fork() == 0: time.sleep(60)
def returning_child(): os.fork()
def orphan():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
def closes_all(): os.closerange(0, 4096)
def at_exit():
    atexit.register(lambda: open(path("child-atexit"), "w").close()); sys.exit(0)
def sqlite_commit(): db.execute("insert into t values (3)"); db.commit()
def sqlite_close(): db.rollback(); db.close()
def flushes(): written.write("child,"); written.flush(); written.close()
def reads(): return len(reading.read())
def memory(): return len(bytearray(3 << 30))
def flood():
    for _ in range(100000): print("x" * 100)
def clears(): state["items"].clear()
def thread_left(): threading.Thread(target=time.sleep, args=(60,)).start()
def recursion():
    def again(): return again()
    again()
def process_left(): subprocess.Popen(["sleep", "60"])
def writes_map(): shared[:4] = b"evil"; shared.flush(); number.value = 9
def locks(): lock.acquire(); os.kill(os.getpid(), 9)
def unlocks(): fcntl.flock(locked, fcntl.LOCK_UN)
def closes_loop(): loop.close()
def seeks(): reading.seek(0); os.lseek(reading.fileno(), 77, os.SEEK_SET)
def removes(): [os.unlink(path(name)) for name in os.listdir(FOLDER)]
def setsid_left():
    if os.fork() == 0:
        os.setsid(); time.sleep(60)
def signals(): signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)
def random_state(): random.seed(1); return random.random()
def imports(): import colorsys; warnings.simplefilter("error"); os.environ["NEW"] = "1"; os.chdir("/")
def resources():
    import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))

def children():
    found = []
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%%s/children" %% task) as file: found += file.read().split()
    return sorted(found)
def view():
    import resource
    links, places = {}, {}
    for name in os.listdir("/proc/self/fd"):
        try: links[name] = os.readlink("/proc/self/fd/" + name)
        except OSError: continue
        if links[name].startswith(FOLDER):
            with open("/proc/self/fdinfo/" + name) as file: places[name] = file.readline()
    return {
        "descriptors": {key: one for key, one in links.items() if "/proc/" not in one}, "offsets": places,
        "threads": sorted(one.name for one in threading.enumerate() if one.name != "codriver"), "children": children(),
        "state": (len(state["items"]), state["n"], db.in_transaction, number.value, bytes(shared[:4])),
        "loop": loop.is_closed(), "locks": locks_now(),
        "files": {name: open(path(name), "rb").read() for name in sorted(os.listdir(FOLDER))},
        "random": hash(random.getstate()), "signal": [str(signal.getsignal(one)) for one in (2, 15, 17)],
        "limits": [resource.getrlimit(one) for one in range(10)], "folder": os.getcwd(), "environ": dict(os.environ),
        "modules": sorted(name for name in sys.modules), "filters": len(warnings.filters),
    }
def locks_now():
    """Whether the lock of a file is held, and the other one free."""
    with open(path("lock")) as other:
        try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB); held = False
        except OSError: held = True
    free = lock.acquire(timeout=5)
    if free: lock.release()
    return held, free
def still_works():
    """The state of the world: the lock is held and the other is free, the loop wakes, the transaction commits."""
    held, free = locks_now()
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    written.flush()
    db.commit()
    rows = [row[0] for row in db.execute("select x from t")]
    whole = sqlite3.connect(path("a.db")).execute("pragma integrity_check").fetchall()
    rest = reading.read(3)
    text = open(path("w.txt")).read()
    child.kill(); child.wait()
    return held, free, rows, whole, rest, text
'''

ARRAY = """
import numpy, numpy.random
array = numpy.memmap(path("array"), dtype="i4", mode="w+", shape=1000); array[:] = 1; array.flush()
def writes_array(): array[:] = 2; array.flush()
def fills_array():
    array[:500] = 3; os.kill(os.getpid(), 9)
def array_view():
    return int(array.sum()), str(numpy.random.get_state()[1][:5])
"""
"""More of it, where there is numpy: a mapped array."""
ARRAY_KINDS = ("writes_array", "fills_array")
KINDS = (
    "killed", "timed", "spin", "exits", "raises_exit", "segfault", "bomb", "returning_child", "orphan", "closes_all",
    "at_exit", "sqlite_commit", "sqlite_close", "flushes", "reads", "memory", "flood", "clears", "thread_left",
    "recursion", "process_left", "writes_map", "locks", "unlocks", "closes_loop", "seeks", "removes", "setsid_left",
    "signals", "random_state", "imports", "resources",
)  # fmt: skip
"""The functions above that do harm."""
AT_ONCE = 8
EXPECTED = "(True, True, [1, 2], [('ok',)], 'def', 'buffered,')"
