/* The includes of a user's program. header.sh compiles it as C and as C++. It expands every macro of the public
 * header. */
#include <redlock/redlock.h>

/* A second include has no effect. */
#include <redlock/redlock.h>

int main(void)
{
    redlock_options options = REDLOCK_OPTIONS_INIT;
    redlock_acquire_options acquire = REDLOCK_ACQUIRE_OPTIONS_INIT;
    acquire.wait_ms = REDLOCK_FOREVER;
#ifndef __cplusplus
    acquire = *REDLOCK_WAIT_MS(5000);
#endif
    int grants = (REDLOCK_FINDING_FULL & REDLOCK_FINDINGS_UNFIT) == 0;
    return grants && options.struct_size == sizeof(options) && acquire.struct_size == sizeof(acquire) ? 0 : 1;
}
