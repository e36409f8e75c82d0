/* A python.exe: it calls the main function of the interpreter's library, which lies beside it. */
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

typedef int (*python_main)(int, wchar_t **);

int wmain(int count, wchar_t **words) {
    static wchar_t path[32768];
    GetModuleFileNameW(NULL, path, 32000);
    wcscpy(wcsrchr(path, L'\\') + 1, L"python312.dll");
    HMODULE library = LoadLibraryExW(path, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (library == NULL) {
        fprintf(stderr, "python312.dll cannot be loaded: error %lu\n", GetLastError());
        return 1;
    }
    python_main run = (python_main)(void *)GetProcAddress(library, "Py_Main");
    return run(count, words);
}
