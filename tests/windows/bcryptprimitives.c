/* Random bytes as Rust's library asks for them, from a function that Wine 8 has. */
#include <windows.h>
#include <ntsecapi.h>

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
    const ULONG most = 1 << 16;
    BOOL is_done = TRUE;
    while (is_done && count > 0) {
        ULONG piece = count < most ? (ULONG)count : most;
        is_done = RtlGenRandom(bytes, piece);
        bytes += piece;
        count -= piece;
    }
    return is_done;
}
