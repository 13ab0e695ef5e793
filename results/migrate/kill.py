"""Kills a migration 20 times at random moments, and lets it end: `kill.py LONGEST_SECONDS FIRN ARGS…`."""
import os
import random
import subprocess
import sys
import time

longest, command = float(sys.argv[1]), sys.argv[2:]
r = random.Random(int(time.time()))
resume, kills, ended = [], 0, None
began = time.time()
while kills < 20:
    with open("kill.log", "a") as log:
        p = subprocess.Popen([*command, *resume], stdout=subprocess.DEVNULL, stderr=log)
        pause = r.uniform(0.2, longest)
        try:
            print(f"ended by itself after less than {pause:.1f} s, {kills} kills", p.wait(pause), flush=True)
            ended = p.returncode
            break
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()
            kills += 1
            print(f"kill -9 number {kills} after {pause:.1f} s", flush=True)
    # One that was killed before it sent anything has no journal yet.
    resume = ["--resume"] if os.path.exists(command[command.index("--db") + 1] + ".migration") else []
if ended is None:
    print("the last run:", subprocess.run([*command, *resume], stdout=subprocess.DEVNULL).returncode)
print(f"{time.time() - began:.0f} s")
