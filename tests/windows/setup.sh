#!/usr/bin/env bash
# Makes a CPython for Windows that runs under Wine, with what Codriver needs and this checkout in it:
#   setup.sh FOLDER
# FOLDER/python is the command for CODRIVER_WINDOWS_PYTHON. Wants Debian or Ubuntu with root, and the library of a Python
# 3.12 on this machine (PYTHON312_LIB, pyenv's, or the system's); without one it ends with status 3. All else is Debian's
# and PyPI's: interpreter and extension modules come out of the wheel of panda3d, which carries a whole Python.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
checkout=$(cd "$here/../.." && pwd)
mkdir -p "${1:?setup.sh FOLDER}"
made=$(cd "$1" && pwd)
python="$made/python312"
export WINEPREFIX="$made/prefix" WINEDEBUG=-all WINEARCH=win64

library=${PYTHON312_LIB:-}
for place in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12.*/lib/python3.12 /usr/local/lib/python3.12 /usr/lib/python3.12; do
  if [ -z "$library" ] && [ -f "$place/asyncio/windows_events.py" ]; then library=$place; fi
done
if [ -z "$library" ]; then
  echo "there is no library of a Python 3.12 on this machine" >&2
  exit 3
fi

if ! command -v wine >/dev/null || ! command -v gendef >/dev/null || ! command -v x86_64-w64-mingw32-gcc >/dev/null; then
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    wine wine64 gcc-mingw-w64-x86-64 mingw-w64-tools unzip >/dev/null
fi
uv=$(command -v uv || true)
if [ -z "$uv" ]; then
  python3 -m venv "$made/tools"
  "$made/tools/bin/pip" install -q --disable-pip-version-check uv
  uv="$made/tools/bin/uv"
fi
for_windows() { # installs packages into a folder, as the Python there would
  "$uv" pip install -q --python-platform x86_64-pc-windows-msvc --python-version 3.12 --only-binary :all: --target "$@"
}

if [ ! -f "$python/python.exe" ]; then
  rm -rf "$python" "$made/build"
  mkdir -p "$python/DLLs" "$python/Lib" "$made/build"
  for_windows "$made/build/wheel" --no-deps panda3d==1.10.16
  parts=$(find "$made/build/wheel" -name python312.dll -printf '%h\n' | head -n 1)
  cp "$parts"/{python312,VCRUNTIME140,VCRUNTIME140_1}.dll "$python"
  cp "$parts"/*.pyd "$parts"/{libcrypto-3,libssl-3,libffi-8,sqlite3}.dll "$python/DLLs"
  rm -f "$python/DLLs/_wmi.pyd" # Wine 8 crashes in it, and `platform` does without
  tar -C "$library" --exclude=./test --exclude=./site-packages --exclude=./lib-dynload --exclude='./config-*' -c . |
    tar -C "$python/Lib" -x
  mkdir "$python/Lib/site-packages"
  # A fault of 3.12.1's own, whose library the newer interpreter may have got: mended in 3.12.2.
  sed -i '/@classmethod/!{N};s/\n    def invalidate_caches(cls)/\n    @classmethod\n    def invalidate_caches(cls)/' \
    "$python/Lib/importlib/metadata/__init__.py"
  sed -i '/^    @classmethod$/{N;s/    @classmethod\n    @classmethod/    @classmethod/}' "$python/Lib/importlib/metadata/__init__.py"
  cd "$made/build"
  x86_64-w64-mingw32-gcc -O2 -municode -o "$python/python.exe" "$here/python_exe.c"
  # Modules of the stable interface name python3.dll, which passes everything on.
  gendef - "$python/python312.dll" 2>/dev/null | tr -d '\r' |
    awk 'BEGIN {print "LIBRARY python3.dll\nEXPORTS"} on && NF {print $1 "=python312." $1} /^EXPORTS/ {on = 1}' >python3.def
  x86_64-w64-mingw32-gcc -shared -nostdlib -Wl,-e,0 -o "$python/python3.dll" python3.def
  x86_64-w64-mingw32-gcc -shared -O2 -o bcryptprimitives.dll "$here/bcryptprimitives.c" -ladvapi32
  { wineboot -u; wine winecfg -v win10; } </dev/null 2>&1 | cat >/dev/null
  cp bcryptprimitives.dll "$WINEPREFIX/drive_c/windows/system32"
fi

python3 - "$checkout/pyproject.toml" >"$made/requirements.txt" <<'END'
import sys, tomllib

project = tomllib.load(open(sys.argv[1], "rb"))["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *extras["lisp"], *extras["jupyter"], "pytest>=8.3", "hypothesis", "jsonschema", "pillow", sep="\n")
END
for_windows "$python/Lib/site-packages" -r "$made/requirements.txt"
printf 'Z:%s\n' "$checkout/server" "$checkout/relay" | tr / '\\' >"$python/Lib/site-packages/checkout.pth"

cat >"$made/python" <<END
#!/usr/bin/env bash
# Python for Windows. Its streams have to be pipes: Wine 8 gives Python none that is a file.
export WINEPREFIX='$WINEPREFIX' WINEDEBUG=-all WINEARCH=win64
exec wine '$python/python.exe' "\$@"
END
chmod +x "$made/python"
echo "made $made/python"
